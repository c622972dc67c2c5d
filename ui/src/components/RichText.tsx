import { Code } from "./Labels";

/** Text in which backticks mark code, as in descriptions and messages of the server. */
export function RichText({ text }: { text: string }) {
  return text.split(/`([^`]+)`/).map((part, index) => (index % 2 === 1 ? <Code key={index}>{part}</Code> : part));
}

/** A dotted path that may break after each dot. */
export function Path({ text }: { text: string }) {
  return text.split(/(?<=\.)/).map((part, index) => (
    <span key={index}>
      {part}
      <wbr />
    </span>
  ));
}
