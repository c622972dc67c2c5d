declare module "js-yaml" {
  /** Parses a text with one YAML document. Throws if it is not YAML. */
  export function load(text: string): unknown;
}
