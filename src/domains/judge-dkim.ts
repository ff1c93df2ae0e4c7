/**
 * Is this the DKIM key we asked for? Compares meaning, not text (RFC 6376 §3.6.1: tags in any
 * order, white space around them and inside `p=`, several strings joined), and names the mistakes
 * that DNS panels and copying bring about. Pure.
 */
import type { RecordStatus } from './records.ts';

export type Judgement = {
  status: Extract<RecordStatus, 'verified' | 'mismatch' | 'missing'>;
  problem: string | null;
};

/** Tag → value, both trimmed; values keep their inner white space. */
type Tags = ReadonlyMap<string, string>;

/** @param texts the TXT records at the name, at least one, the strings of each joined */
export function judgeDkim(expected: string, texts: readonly string[]): Judgement {
  const found = texts.find(looksLikeDkimKey);
  if (found === undefined) return notAKey(expected, texts);
  // RFC 6376 §3.6.2.2: with several records the result is undefined.
  if (texts.length > 1) {
    return mismatch(
      `there are ${texts.length} TXT records at this name, and receivers may read the wrong one: delete all but the one shown`,
    );
  }
  return spoiltText(found) ?? wrongTags(parseTags(expected), parseTags(found));
}

/** A TXT record that is meant as a DKIM key, however badly it was entered. */
export function looksLikeDkimKey(text: string): boolean {
  return /(^|[;\s"'“])p\s*=/i.test(text) && !/DMARC1/i.test(text);
}

function notAKey(expected: string, texts: readonly string[]): Judgement {
  const key = parseTags(expected).get('p');
  if (texts.some((text) => withoutSpaces(text).includes(`${key}`))) {
    return mismatch('the record holds only the key: enter the whole value, from "v=DKIM1" on');
  }
  const [text = ''] = texts;
  return mismatch(
    `the TXT record at this name is not a DKIM key (it starts with "${text.slice(0, 40)}"): add the value shown`,
  );
}

/** Characters that belong to a zone file and not into the field of a DNS panel. */
function spoiltText(text: string): Judgement | null {
  if (/["'“”„‘’]/.test(text)) {
    return mismatch(
      'the value holds quotation marks: enter it without them, the DNS panel adds its own',
    );
  }
  if (text.includes('\\')) {
    return mismatch('the value holds backslashes: enter the semicolons without them');
  }
  return null;
}

function wrongTags(expected: Tags, found: Tags): Judgement {
  const version = found.get('v');
  const versionFirst = [...found.keys()][0] === 'v';
  if (version !== undefined && (version !== 'DKIM1' || !versionFirst)) {
    return mismatch('the value must start with "v=DKIM1": receivers ignore the key as it is');
  }
  const keyType = found.get('k') ?? 'rsa';
  if (keyType !== (expected.get('k') ?? 'rsa')) {
    return mismatch(
      `the record says k=${keyType}, but this key is of type ${expected.get('k') ?? 'rsa'}: enter the value shown`,
    );
  }
  return wrongKey(expected.get('p') ?? '', found.get('p') ?? '') ?? restricted(found);
}

function wrongKey(expected: string, found: string): Judgement | null {
  const key = withoutSpaces(found);
  if (key === expected) return null;
  if (key === '') {
    return mismatch(
      'the key is empty (p=), which means that it was withdrawn: enter the value shown',
    );
  }
  if (expected.startsWith(key)) {
    return mismatch(
      `the key is cut off after ${key.length} of ${expected.length} characters: enter the whole value; if your DNS panel takes only 255 characters, as two strings`,
    );
  }
  if (/[^A-Za-z0-9+/=]/.test(key)) {
    return mismatch(
      'the key holds characters that do not belong there: copy the value shown once more',
    );
  }
  if (key.toLowerCase() === expected.toLowerCase()) {
    return mismatch(
      'upper and lower case of the key were changed: enter the value exactly as shown',
    );
  }
  return mismatch(
    'another key is published at this name, perhaps from an earlier set-up: replace it with the value shown',
  );
}

/** Tags with which a key excludes our signatures (`h=`) or mail (`s=`). */
function restricted(found: Tags): Judgement {
  const allows = (tag: string, ...wanted: string[]) => {
    const values = found
      .get(tag)
      ?.split(':')
      .map((value) => value.trim());
    return values === undefined || wanted.some((value) => values.includes(value));
  };
  if (!allows('h', 'sha256')) {
    return mismatch('the record excludes sha256 signatures (h=): enter the value shown');
  }
  if (!allows('s', '*', 'email')) {
    return mismatch('the record excludes mail (s=): enter the value shown');
  }
  const spaced = /\s/.test(found.get('p') ?? '');
  return {
    status: 'verified',
    problem: spaced
      ? 'the key holds white space: that is allowed, but some receivers fail on it, so better enter it without'
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

function withoutSpaces(text: string): string {
  return text.replaceAll(/\s/g, '');
}

function mismatch(problem: string): Judgement {
  return { status: 'mismatch', problem };
}
