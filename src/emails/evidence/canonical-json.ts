/**
 * JSON in the one form that RFC 8785 defines, so that a signature does not depend on the order of names or on blanks.
 *
 * JavaScript writes numbers and texts as §3.2.2 requires, and compares strings by UTF-16 code units as §3.2.3 requires.
 */

/** @throws TypeError for what JSON cannot express: NaN, infinities, undefined, a text with a lone surrogate */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (typeof value === 'object' && value !== null) {
    const members = Object.entries(value).toSorted(([one], [other]) => (one < other ? -1 : 1));
    return `{${members.map(([name, part]) => `${text(name)}:${canonicalJson(part)}`).join(',')}}`;
  }
  if (typeof value === 'string') return text(value);
  const isJson = value === null || typeof value === 'boolean' || Number.isFinite(value);
  if (isJson) return JSON.stringify(value);
  throw new TypeError(`A value of the type ${typeof value} has no form in JSON.`);
}

function text(value: string): string {
  if (value.isWellFormed()) return JSON.stringify(value);
  throw new TypeError('A text with a lone surrogate has no canonical form.');
}

/**
 * Returns whether a JSON text says the same to every reader: no object has a name twice, and no number has digits that
 * a double does not keep. Readers disagree on both, and JSON.parse hides them.
 * @param parsed what JSON.parse made of the text
 */
export function isUnambiguousJson(json: string, parsed: unknown): boolean {
  let names = 0;
  const withoutTexts = json.replaceAll(/"(?:[^"\\]|\\.)*"(\s*:)?/g, (_, colon?: string) => {
    if (colon !== undefined) names += 1;
    return '';
  });
  const numbers = withoutTexts.match(/-?\d[\d.eE+-]*/g) ?? [];
  return (
    names === countNames(parsed) && numbers.every((digits) => String(Number(digits)) === digits)
  );
}

function countNames(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  const parts = Object.values(value);
  const own = Array.isArray(value) ? 0 : parts.length;
  return parts.reduce<number>((sum, part) => sum + countNames(part), own);
}
