/**
 * Reads environment variables into values and collects every problem instead of stopping at the
 * first. A problem is one line: the variable, what is wrong with it, what to write instead. Values
 * that may hold a password are never repeated in it.
 */
import { mostSimilar } from '../core/similar.ts';

export type Env = Readonly<Record<string, string | undefined>>;

export class EnvReader {
  readonly problems: string[] = [];
  readonly #env: Env;
  readonly #known = new Set<string>();

  constructor(env: Env) {
    this.#env = env;
  }

  /** The trimmed text; null when absent or blank: `NAME=` unsets. */
  text(name: string): string | null {
    this.#known.add(name);
    return this.#env[name]?.trim() || null;
  }

  /**
   * The value that `parse` makes of the text; null when the variable is absent or wrong.
   * @param parse null means that the text is wrong
   * @param rule how it should be written: `write a number from 1 to 65535`
   */
  parsed<Value>(name: string, parse: (text: string) => Value | null, rule: string): Value | null {
    const text = this.text(name);
    if (text === null) return null;
    const value = parse(text);
    if (value === null) this.problem(name, `${JSON.stringify(text)} is not understood; ${rule}.`);
    return value;
  }

  /** As `parsed`, for a value that must not be shown. */
  secret<Value>(name: string, parse: (text: string) => Value | null, rule: string): Value | null {
    const text = this.text(name);
    if (text === null) return null;
    const value = parse(text);
    if (value === null) this.problem(name, `its value is not understood; ${rule}.`);
    return value;
  }

  /** A comma-separated list; each wrong item is a problem of its own. Empty when absent. */
  list<Value>(name: string, parse: (item: string) => Value | null, rule: string): Value[] {
    const items = (this.text(name) ?? '').split(',').map((item) => item.trim());
    const values: Value[] = [];
    for (const item of items.filter((each) => each !== '')) {
      const value = parse(item);
      if (value !== null) values.push(value);
      else this.problem(name, `${JSON.stringify(item)} is not understood; ${rule}.`);
    }
    return values;
  }

  flag(name: string): boolean {
    return this.parsed(name, parseFlag, 'write 1 or 0') ?? false;
  }

  problem(name: string, what: string): void {
    this.problems.push(`${name}: ${what}`);
  }

  /** Reports what begins like ours and was never asked for: a typo must not be ignored in silence. */
  reportUnknown(prefix: string): void {
    const known = [...this.#known];
    const unprefixed = known.map((name) => (name.startsWith(prefix) ? name : prefix + name));
    for (const [name, value] of Object.entries(this.#env)) {
      if (!name.startsWith(prefix) || this.#known.has(name) || isServiceLink(name, value)) continue;
      const near = mostSimilar(name, unprefixed);
      const meant = near === null ? undefined : known[unprefixed.indexOf(near)];
      const hint = meant === undefined ? 'unset it' : `did you mean ${meant}? Rename or unset it`;
      this.problem(name, `there is no such variable; ${hint}.`);
    }
  }
}

/** Kubernetes describes a service named `posthorn` to its pods in variables of these forms. */
function isServiceLink(name: string, value = ''): boolean {
  return /_SERVICE_(HOST|PORT)|_PORT_\d+_(TCP|UDP)/.test(name) || /^(tcp|udp):\/\//.test(value);
}

function parseFlag(text: string): boolean | null {
  if (/^(1|true|on|yes)$/i.test(text)) return true;
  return /^(0|false|off|no)$/i.test(text) ? false : null;
}
