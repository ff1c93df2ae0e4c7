/**
 * Compares the DKIM records at a name with the one that has to be there (RFC 6376 §3.6.1). Records are compared by
 * meaning. Each typical mistake has its own message.
 */
import { mismatch, type RecordComparison } from './record-comparison.ts';

/** Tag → value, both trimmed. Values keep their inner white space. */
type Tags = ReadonlyMap<string, string>;

/**
 * Compares the records with the expected one.
 * @param texts TXT records at the name, at least one, each with its strings joined
 */
export function compareDkim(expected: string, texts: readonly string[]): RecordComparison {
  const found = texts.find(looksLikeDkimKey);
  if (found === undefined) return findNoKey(expected, texts);
  // RFC 6376 §3.6.2.2: the result with several records is undefined.
  if (texts.length > 1) {
    return mismatch(
      `there are ${texts.length} TXT records at this name, and receivers may read the wrong one`,
      'delete all but the one shown',
    );
  }
  return findSpoiltText(found) ?? compareTags(parseTags(expected), parseTags(found));
}

export function looksLikeDkimKey(text: string): boolean {
  return /(^|[;\s"'“])p\s*=/i.test(text) && !/DMARC1/i.test(text);
}

function findNoKey(expected: string, texts: readonly string[]): RecordComparison {
  const key = parseTags(expected).get('p');
  if (texts.some((text) => removeSpaces(text).includes(`${key}`))) {
    return mismatch('the record holds only the key', 'enter the whole value, from "v=DKIM1" on');
  }
  const [text = ''] = texts;
  return mismatch(
    `the TXT record at this name is not a DKIM key (it starts with "${text.slice(0, 40)}")`,
    'add the value shown',
  );
}

/** Detects zone file syntax, which must not be entered in a DNS panel. */
function findSpoiltText(text: string): RecordComparison | null {
  if (/["'“”„‘’]/.test(text)) {
    return mismatch(
      'the value holds quotation marks',
      'enter it without them, the DNS panel adds its own',
    );
  }
  if (text.includes('\\')) {
    return mismatch('the value holds backslashes', 'enter the semicolons without them');
  }
  return null;
}

function compareTags(expected: Tags, found: Tags): RecordComparison {
  const version = found.get('v');
  const isVersionFirst = [...found.keys()][0] === 'v';
  if (version !== undefined && (version !== 'DKIM1' || !isVersionFirst)) {
    return mismatch(
      'the value does not start with "v=DKIM1", so receivers ignore the key',
      'enter the value shown',
    );
  }
  const keyType = found.get('k') ?? 'rsa';
  if (keyType !== (expected.get('k') ?? 'rsa')) {
    return mismatch(
      `the record says k=${keyType}, but this key is of type ${expected.get('k') ?? 'rsa'}`,
      'enter the value shown',
    );
  }
  return compareKeys(expected.get('p') ?? '', found.get('p') ?? '') ?? findRestrictions(found);
}

function compareKeys(expected: string, found: string): RecordComparison | null {
  const key = removeSpaces(found);
  if (key === expected) return null;
  if (key === '') {
    return mismatch(
      'the key is empty (p=), which means that it was revoked',
      'enter the value shown',
    );
  }
  if (expected.startsWith(key)) {
    return mismatch(
      `the key is cut off after ${key.length} of ${expected.length} characters`,
      'enter the whole value; if your DNS panel takes only 255 characters, as two strings',
    );
  }
  if (/[^A-Za-z0-9+/=]/.test(key)) {
    return mismatch(
      'the key holds characters that do not belong there',
      'copy the value shown once more',
    );
  }
  if (key.toLowerCase() === expected.toLowerCase()) {
    return mismatch(
      'upper and lower case of the key were changed',
      'enter the value exactly as shown',
    );
  }
  return mismatch(
    'another key is published at this name, perhaps from an earlier set-up',
    'replace it with the value shown',
  );
}

function findRestrictions(found: Tags): RecordComparison {
  const allows = (tag: string, ...accepted: string[]) => {
    const values = found
      .get(tag)
      ?.split(':')
      .map((value) => value.trim());
    return values === undefined || accepted.some((value) => values.includes(value));
  };
  if (!allows('h', 'sha256')) {
    return mismatch('the record excludes sha256 signatures (h=)', 'enter the value shown');
  }
  if (!allows('s', '*', 'email')) {
    return mismatch('the record excludes mail (s=)', 'enter the value shown');
  }
  const hasSpaces = /\s/.test(found.get('p') ?? '');
  return {
    status: 'verified',
    problem: hasSpaces
      ? {
          mistake: 'the key holds white space, which is allowed, but some receivers fail on it',
          remedy: 'enter it without',
        }
      : null,
  };
}

function parseTags(text: string): Tags {
  const pairs = text.split(';').map((tag): [string, string] => {
    const [name = '', ...value] = tag.split('=');
    return [name.trim(), value.join('=').trim()];
  });
  return new Map(pairs.filter(([name]) => name !== ''));
}

function removeSpaces(text: string): string {
  return text.replaceAll(/\s/g, '');
}
