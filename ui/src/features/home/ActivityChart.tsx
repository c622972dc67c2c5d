import type { ActivityHour } from "@/model/activity";
import { plural } from "@/model/format";

const HEIGHT = 40;

/** A bar for each hour of the last day. The table is for screen readers. */
export function ActivityChart({ hours }: { hours: ActivityHour[] }) {
  const highest = Math.max(1, ...hours.map((hour) => hour.completed + hour.failed + hour.open));
  return (
    <>
      <div aria-hidden className="mt-2 flex items-end gap-[3px]" style={{ height: HEIGHT }}>
        {hours.map((hour) => (
          <Bar key={hour.start} hour={hour} highest={highest} />
        ))}
      </div>
      <table className="sr-only">
        <caption>Runs of each hour</caption>
        <tbody>
          {hours
            .filter((hour) => hour.completed + hour.failed + hour.open > 0)
            .map((hour) => (
              <tr key={hour.start}>
                <th scope="row">{timeOf(hour.start)}</th>
                <td>{describe(hour)}</td>
              </tr>
            ))}
        </tbody>
      </table>
    </>
  );
}

function Bar({ hour, highest }: { hour: ActivityHour; highest: number }) {
  const height = (value: number) => (value === 0 ? 0 : Math.max(2, (value / highest) * (HEIGHT - 2)));
  const total = hour.completed + hour.failed + hour.open;
  return (
    <div title={`${timeOf(hour.start)}: ${describe(hour)}`} className="flex h-full min-w-0 flex-1 flex-col justify-end gap-px">
      {total === 0 && <div className="h-0.5 rounded-full bg-line-strong" />}
      {hour.failed > 0 && <div className="rounded-[2px] bg-span-bad" style={{ height: height(hour.failed) }} />}
      {hour.open > 0 && <div className="rounded-[2px] bg-span-wait" style={{ height: height(hour.open) }} />}
      {hour.completed > 0 && <div className="rounded-[2px] bg-accent-line" style={{ height: height(hour.completed) }} />}
    </div>
  );
}

function timeOf(start: number): string {
  return new Date(start).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
}

function describe(hour: ActivityHour): string {
  return `${plural(hour.completed, "run")} completed, ${hour.failed} failed, ${hour.open} open`;
}
