import { cx } from "@/components/cx";
import { Path } from "@/components/RichText";
import { type FieldChange, type Json, compareFields, leafText, listFields } from "@/model/diff";

const MARKS: Record<FieldChange["change"], { text: string; className: string }> = {
  same: { text: "same", className: "text-faint" },
  changed: { text: "changed", className: "text-wait font-medium" },
  added: { text: "new", className: "text-active font-medium" },
  removed: { text: "removed", className: "text-bad font-medium" },
};

/** The arguments of a call, field by field, with the difference to the last approved call. */
export function Arguments({ input, previous }: { input: Json; previous: Json | undefined }) {
  const fields = previous === undefined ? listFields(input) : compareFields(previous, input);
  if (fields.length === 0) return <p className="rounded-md border bg-sunken px-3 py-2 text-muted">The call has no arguments.</p>;
  return (
    <div className="overflow-x-auto rounded-md border">
      <table className="w-full text-left">
        <thead className="sr-only">
          <tr>
            <th scope="col">Field</th>
            <th scope="col">Value</th>
            {previous !== undefined && <th scope="col">Difference to the last approved call</th>}
          </tr>
        </thead>
        <tbody>
          {fields.map((field) => (
            <tr key={field.path} className="border-b align-top last:border-b-0">
              <th scope="row" className="w-[30%] min-w-28 py-2 pr-3 pl-3 font-mono text-xs font-normal text-muted [overflow-wrap:anywhere]">
                <Path text={field.path || "value"} />
              </th>
              <td className="py-2 pr-3 [overflow-wrap:anywhere]">
                {field.after !== undefined && (
                  <span className={cx("whitespace-pre-wrap", field.change !== "same" && previous !== undefined && "font-medium")}>
                    {leafText(field.after)}
                  </span>
                )}
                {(field.change === "changed" || field.change === "removed") && (
                  <span className="block text-xs text-faint line-through">{leafText(field.before)}</span>
                )}
              </td>
              {previous !== undefined && (
                <td className={cx("w-20 py-2 pr-3 text-right text-xs", MARKS[field.change].className)}>{MARKS[field.change].text}</td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
