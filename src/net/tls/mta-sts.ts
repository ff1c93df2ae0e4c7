/**
 * MTA-STS (RFC 8461): what a domain says about how its mail servers are reached, as pure functions.
 *
 * The TXT record at `_mta-sts.<domain>` names a version of the policy; the policy itself comes over
 * HTTPS (mta-sts-fetch.ts) and is remembered (mta-sts-cache.ts). Strict where the RFC is: what is
 * not a policy by its grammar counts as none, and never as a weaker one.
 */

/** Hosts in lower case; `*.` stands for exactly one label. */
export type StsPolicy = {
  mode: 'enforce' | 'testing' | 'none';
  mx: readonly string[];
  maxAgeS: number;
};

export type StsRecord = { kind: 'id'; id: string } | { kind: 'none' };
export type ParsedPolicy = { policy: StsPolicy } | { problem: string };

/** RFC 8461 §3.2: one year. A larger one counts as this. */
const MAX_AGE_MAX_S = 31_557_600;
/** A policy that is forgotten sooner would be fetched again and again. */
const MAX_AGE_MIN_S = 300;
const MX_PATTERNS_MAX = 200;
const NOT_A_FIELD = 'a line is not "key: value"';
const HOST =
  /^(?=.{1,253}$)(?:\*\.)?(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9])?$/;

/**
 * The id in the TXT records of `_mta-sts.<domain>`, each with its strings joined. Other records do
 * not count; of several STSv1 records none does (§3.1).
 */
export function readStsRecord(texts: readonly string[]): StsRecord {
  const records = texts.filter((text) => /^v=STSv1[ \t]*(?:;|$)/.test(text));
  const [record] = records;
  if (record === undefined || records.length > 1) return { kind: 'none' };
  const [, ...fields] = record.split(';').map((field) => field.trim());
  if (fields.at(-1) === '') fields.pop();
  if (
    !fields.every((field) =>
      /^[A-Za-z0-9][A-Za-z0-9_.-]{0,31}=[\x21-\x3a\x3c\x3e-\x7e]+$/.test(field),
    )
  ) {
    return { kind: 'none' };
  }
  const ids = fields.filter((field) => field.startsWith('id='));
  const id = ids[0]?.slice(3) ?? '';
  return ids.length === 1 && /^[A-Za-z0-9]{1,32}$/.test(id) ? { kind: 'id', id } : { kind: 'none' };
}

/**
 * A policy file (§3.2): `key: value` lines, CRLF or LF; case counts in the version alone. Unknown keys are passed over, of a key that
 * is there twice the first counts, except for `mx`.
 */
export function parseStsPolicy(body: string): ParsedPolicy {
  const fields = new Map<string, string>();
  const mx: string[] = [];
  for (const line of body.split(/\r?\n/)) {
    if (line.trim() === '') continue;
    const [, key, written] = /^[ \t]*([A-Za-z0-9][A-Za-z0-9_.-]{0,31}):(.*)$/.exec(line) ?? [];
    if (key === undefined || written === undefined) return { problem: NOT_A_FIELD };
    const name = key.toLowerCase();
    const value = withoutBlanks(written);
    if (name === 'mx') mx.push(value.toLowerCase().replace(/\.$/, ''));
    else if (!fields.has(name)) fields.set(name, value);
  }
  return policyOf(fields, mx);
}

/** Without spaces and tabs at its ends. By steps: a pattern for those at the end takes n² of them. */
function withoutBlanks(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && isBlank(text[start])) start += 1;
  while (end > start && isBlank(text[end - 1])) end -= 1;
  return text.slice(start, end);
}

function isBlank(character: string | undefined): boolean {
  return character === ' ' || character === '\t';
}

function policyOf(fields: ReadonlyMap<string, string>, mx: readonly string[]): ParsedPolicy {
  if (fields.get('version') !== 'STSv1') return { problem: 'the version is not STSv1' };
  const mode = fields.get('mode')?.toLowerCase();
  if (mode !== 'enforce' && mode !== 'testing' && mode !== 'none') {
    return { problem: 'the mode is none of enforce, testing and none' };
  }
  const maxAge = fields.get('max_age') ?? '';
  if (!/^\d{1,10}$/.test(maxAge)) return { problem: 'max_age is not a number of seconds' };
  if (mx.length > MX_PATTERNS_MAX)
    return { problem: `it has more than ${MX_PATTERNS_MAX} mx lines` };
  if (!mx.every((pattern) => HOST.test(pattern))) return { problem: 'an mx line is no host name' };
  if (mode !== 'none' && mx.length === 0) return { problem: 'it names no mx' };
  const maxAgeS = Math.min(Math.max(Number(maxAge), MAX_AGE_MIN_S), MAX_AGE_MAX_S);
  return { policy: { mode, mx, maxAgeS } };
}

/** Whether the policy names this mail server; a wildcard stands for one leftmost label (§4.1). */
export function policyNames(policy: StsPolicy, host: string): boolean {
  const name = host.toLowerCase().replace(/\.$/, '');
  const wildcard = `*${name.slice(name.indexOf('.'))}`;
  return policy.mx.some(
    (pattern) => pattern === name || (name.includes('.') && pattern === wildcard),
  );
}
