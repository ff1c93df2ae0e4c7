/** Signatures for any message, verified by mailauth, which shares no code with us. */
import assert from 'node:assert/strict';
import { createPrivateKey, generateKeyPairSync } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import { dkimVerify } from 'mailauth/lib/dkim/verify.js';
import { parseMailbox } from './address.ts';
import { composeMessage, type Message, messageIdOf } from './compose.ts';
import {
  type DkimKey,
  dkimRecordValue,
  generateDkimKeys,
  relaxedBodyHash,
  relaxedField,
  signMessage,
} from './dkim.ts';
import { headerField } from './mime/header.ts';
import { CHARACTER } from '../../test/support/characters.ts';

const TIME_S = 1_790_000_000;
/** In the far future, because the verifier reads a real clock. */
const TIMES = { signedAtS: TIME_S, expiresAtS: 9_999_999_998 };
const keys = await generateDkimKeys();
const RSA: DkimKey = {
  domain: 'acme.test',
  selector: 'r1',
  algorithm: 'rsa-sha256',
  privateKey: createPrivateKey(keys.rsa.privateKey),
};
const ED25519: DkimKey = {
  domain: 'acme.test',
  selector: 'e1',
  algorithm: 'ed25519-sha256',
  privateKey: createPrivateKey(keys.ed25519.privateKey),
};
const RECORDS: Record<string, string> = {
  'r1._domainkey.acme.test': dkimRecordValue(keys.rsa.publicKey, 'rsa-sha256'),
  'e1._domainkey.acme.test': dkimRecordValue(keys.ed25519.publicKey, 'ed25519-sha256'),
};

const mailbox = (text: string) => parseMailbox(text)!;
const MESSAGE: Message = {
  emailId: '0193a5b4-1c2d-7e3f-8a4b-5c6d7e8f9a0b',
  from: mailbox('Zoë <hello@acme.test>'),
  to: [mailbox('jo@receiver.test')],
  cc: [mailbox('ann@receiver.test')],
  replyTo: [],
  subject: 'A subject that is long enough to be folded  somewhere, with two spaces in one place',
  html: '<p>Grüße</p>\n  <b>  indented </b>\t\n\n',
  text: 'Hello\n\n\n',
  headers: [['Feedback-ID', 'a:b:c:acme']],
  attachments: [],
  date: new Date(TIME_S * 1_000),
  messageId: messageIdOf('0193a5b4-1c2d-7e3f-8a4b-5c6d7e8f9a0b', 'acme.test'),
  unsubscribeUrl: 'https://acme.test/u/1',
};

async function signed(message: Partial<Message>, withKeys: readonly DkimKey[]): Promise<Buffer> {
  const composed = composeMessage({ ...MESSAGE, ...message });
  return Buffer.concat(await signMessage(composed, withKeys, TIMES));
}

/** Returns `algorithm result` of every signature, from mailauth. */
async function resultsOf(message: Buffer | string): Promise<string[]> {
  const resolver = async (name: string) => {
    if (RECORDS[name] === undefined) throw Object.assign(new Error(name), { code: 'ENOTFOUND' });
    return [RECORDS[name].match(/.{1,255}/g) ?? []];
  };
  const { results } = await dkimVerify(Buffer.from(message), { resolver, minBitLength: 1024 });
  return results.map(({ algo, status }) => `${algo} ${status.result}`);
}

const BOTH_PASS = ['rsa-sha256 pass', 'ed25519-sha256 pass'];

test('signatures of either kind, and both together, are valid', async () => {
  assert.deepEqual(await resultsOf(await signed({}, [RSA])), ['rsa-sha256 pass']);
  assert.deepEqual(await resultsOf(await signed({}, [ED25519])), ['ed25519-sha256 pass']);
  assert.deepEqual(await resultsOf(await signed({}, [RSA, ED25519])), BOTH_PASS);
});

const anyText = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        ' ',
        '  ',
        '\t',
        '\n',
        '\r\n',
        '\n\n',
        '.',
        '=',
        '日本',
        '🚀',
        'x'.repeat(300),
      ),
      fc.string({ unit: CHARACTER, maxLength: 10 }),
    ),
  )
  .map((parts) => parts.join('').replaceAll('\0', '').toWellFormed());
const headerText = anyText.map((string) => string.replace(/[\0-\x1f\x7f-\x9f]/g, '') || 'x');

test('signatures are valid for any message', async () => {
  const messages = fc.record({
    html: fc.option(anyText),
    text: fc.option(anyText),
    subject: headerText.map((subject) => subject.slice(0, 998)),
    headers: fc.array(fc.tuple(fc.constantFrom('References', 'X-A', 'List-Id'), headerText)),
    attachments: fc.array(
      fc.record({
        filename: headerText,
        contentType: fc.constant('image/png'),
        contentId: fc.constantFrom(null, 'logo'),
        content: fc.constantFrom('', 'eA==', Buffer.alloc(100_000).toString('base64')),
      }),
      { maxLength: 2 },
    ),
  });
  await fc.assert(
    fc.asyncProperty(messages, async (message) => {
      assert.deepEqual(await resultsOf(await signed(message, [RSA, ED25519])), BOTH_PASS);
    }),
    { numRuns: 100 },
  );
});

test('the same email has the same signatures every time', async () => {
  assert.deepEqual(await signed({}, [RSA, ED25519]), await signed({}, [RSA, ED25519]));
});

test('white space that changes in transit does not invalidate a signature', async () => {
  const message = (await signed({}, [RSA, ED25519])).toString('latin1');
  const changed = message
    .replace('Subject: A subject', 'SUBJECT:\r\n  A   subject')
    .replace('<b>  indented', '<b>     indented')
    .concat('\r\n\r\n');
  assert.notEqual(changed, message);
  assert.deepEqual(await resultsOf(changed), BOTH_PASS);
});

const ADDABLE = (
  'From Sender Reply-To To Cc Subject Date Message-ID MIME-Version Content-Type ' +
  'Content-Transfer-Encoding List-Unsubscribe List-Unsubscribe-Post Feedback-ID'
).split(' ');

test('no field that mail programs act on can be added, even if the message has none', async () => {
  const bare = { unsubscribeUrl: null, headers: [], cc: [], replyTo: [] };
  const message = (await signed(bare, [RSA, ED25519])).toString('latin1');
  assert.deepEqual(await resultsOf(message), BOTH_PASS);
  for (const name of ADDABLE) {
    const below = message.replace('\r\n\r\n', `\r\n${name}: x\r\n\r\n`);
    for (const text of [`${name}: x\r\n${message}`, below]) {
      for (const result of await resultsOf(text)) assert.doesNotMatch(result, /pass/, name);
    }
  }
});

test('every change or addition invalidates the signature', async () => {
  const message = (await signed({}, [RSA])).toString('latin1');
  const changes: [string, string][] = [
    ['hello@acme.test', 'other@acme.test'],
    ['jo@receiver.test', 'eve@receiver.test'],
    ['A subject', 'B subject'],
    ['Gr=C3=BC', 'gr=C3=BC'],
    ['https://acme.test/u/1', 'https://evil.test/u/1'],
    ['List-Unsubscribe=One-Click', 'List-Unsubscribe=Two-Click'],
    ['a:b:c:acme', 'a:b:c:evil'],
    ['Message-ID: <0', 'Message-ID: <1'],
    ['Date: M', 'Date: T'],
    ['multipart/alternative;', 'multipart/mixed;'],
    [`t=${TIME_S}`, `t=${TIME_S + 1}`],
    ['\r\nDate:', '\r\nFrom: evil@evil.test\r\nDate:'],
    ['\r\nDate:', '\r\nReply-To: evil@evil.test\r\nDate:'],
    ['\r\nDate:', '\r\nSubject: Evil\r\nDate:'],
    ['\r\nDate:', '\r\nTo: evil@evil.test\r\nDate:'],
    ['\r\nDate:', '\r\nCc: evil@evil.test\r\nDate:'],
    ...ADDABLE.map((name): [string, string] => ['\r\nDate:', `\r\n${name}: 1\r\nDate:`]),
    [`x=${TIMES.expiresAtS}`, `x=${TIMES.expiresAtS + 1}`],
  ];
  const changed = changes.map(([from, to]) => message.replace(from, to));
  for (const text of [...changed, `${message}more\r\n`]) {
    assert.notEqual(text, message);
    for (const result of await resultsOf(text)) assert.doesNotMatch(result, /pass/, text);
  }
});

test('repeated fields are signed from the bottom up', async () => {
  const composed = composeMessage(MESSAGE);
  const references = ['<1@a.test>', '<2@a.test>'].map((value) => ({ name: 'References', value }));
  const twice = { ...composed, headers: [...references, ...composed.headers] };
  const message = Buffer.concat(await signMessage(twice, [RSA], TIMES));
  assert.deepEqual(await resultsOf(message), ['rsa-sha256 pass']);
});

test('both unsubscribe fields, Feedback-ID and a second From are signed', async () => {
  const message = (await signed({}, [RSA])).toString('latin1');
  const tag = / h=([^;]+);/.exec(message)?.[1] ?? '';
  const names = tag.replace(/\s/g, '').split(':');
  const present =
    'from to cc subject content-type date message-id mime-version list-unsubscribe ' +
    'list-unsubscribe-post feedback-id';
  const absent = 'sender reply-to content-transfer-encoding';
  const expected = `${present} ${present} ${absent}`.split(' ');
  assert.deepEqual(names.toSorted(), expected.toSorted());
  assert.doesNotMatch(message, /\bl=/);
});

test('a signature has an expiry', async () => {
  const message = (await signed({}, [RSA])).toString('latin1');
  assert.match(message, new RegExp(`;\\s+t=${TIME_S}; x=${TIMES.expiresAtS};`));
  const composed = composeMessage(MESSAGE);
  const over = { signedAtS: 1_600_000_000, expiresAtS: 1_600_600_000 };
  const old = Buffer.concat(await signMessage(composed, [RSA], over));
  for (const result of await resultsOf(old)) assert.doesNotMatch(result, /pass/);
});

test('signature fields are folded like all others', async () => {
  const long = { ...RSA, selector: `letterhaus-${'x'.repeat(40)}` };
  const message = (await signed({}, [RSA, ED25519, long])).toString('latin1');
  const header = message.slice(0, message.indexOf('\r\nDate:'));
  for (const line of header.split('\r\n')) {
    assert.ok(line.length <= 78, line);
    assert.match(line, /\S/);
  }
});

test('a message that cannot be signed correctly is not sent', async () => {
  const composed = composeMessage(MESSAGE);
  const publicKey = generateKeyPairSync('ed25519').publicKey;
  const wrong: DkimKey[][] = [
    [],
    [{ ...RSA, domain: 'other.test' }],
    [{ ...RSA, domain: 'sub.acme.test' }],
    [RSA, { ...ED25519, domain: 'other.test' }],
    [{ ...RSA, algorithm: 'ed25519-sha256' }],
    [{ ...ED25519, algorithm: 'rsa-sha256' }],
    [{ ...ED25519, privateKey: publicKey }],
    [{ ...RSA, selector: 'r1\r\nX-Evil: 1' }],
  ];
  for (const some of wrong) await assert.rejects(signMessage(composed, some, TIMES));
});

test('generated keys are RSA-2048 and Ed25519, in the format of their records', () => {
  assert.equal(RSA.privateKey.asymmetricKeyDetails?.modulusLength, 2_048);
  assert.match(RECORDS['r1._domainkey.acme.test']!, /^v=DKIM1; k=rsa; p=MIIB[A-Za-z0-9+/]+=*$/);
  assert.match(RECORDS['e1._domainkey.acme.test']!, /^v=DKIM1; k=ed25519; p=[A-Za-z0-9+/]{43}=$/);
});

const { ed25519 } = await generateDkimKeys();
const key: DkimKey = {
  domain: 'acme.test',
  selector: 'e1',
  algorithm: 'ed25519-sha256',
  privateKey: createPrivateKey(ed25519.privateKey),
};
const record = dkimRecordValue(ed25519.publicKey, 'ed25519-sha256');

async function resultForBody(body: readonly Buffer[]): Promise<string | undefined> {
  const headers = [headerField('From', ['jo@acme.test'])];
  const parts = await signMessage({ fromDomain: 'acme.test', headers, body }, [key], {
    signedAtS: 1_790_000_000,
    expiresAtS: 9_999_999_999,
  });
  const { results } = await dkimVerify(Buffer.concat(parts), { resolver: async () => [[record]] });
  return results[0]?.status.result;
}

/** Whole lines. More of them are empty or end with white space than in real mail. */
const line = fc
  .array(fc.constantFrom(' ', '  ', '\t', 'a', '.', 'é', '\u00a0'), { maxLength: 6 })
  .map((parts) => `${parts.join('')}\r\n`);
const piece = fc
  .array(fc.oneof(line, fc.constantFrom('\r\n', ' \r\n')), { maxLength: 8 })
  .map((lines) => Buffer.from(lines.join('')));

test('the hash of any body is the same as in mailauth', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(piece, { maxLength: 4 }), async (body) => {
      assert.equal(await resultForBody(body), 'pass');
    }),
    { numRuns: 400 },
  );
});

test('the hash does not depend on how a body is split', () => {
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 5 }), (body) => {
      assert.equal(relaxedBodyHash(body), relaxedBodyHash([Buffer.concat(body)]));
    }),
  );
});

test('an empty body, and one of empty lines, has the hash of nothing (RFC 6376 §3.4.4)', () => {
  const nothing = '47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=';
  assert.equal(relaxedBodyHash([]), nothing);
  assert.equal(relaxedBodyHash([Buffer.from('\r\n \t\r\n'), Buffer.from('\r\n')]), nothing);
});

test('only spaces, tabs and folds are white space in a field (RFC 6376 §2.8)', () => {
  const subject = (value: string) => relaxedField({ name: 'Subject', value });
  assert.equal(subject(' \t Hello\r\n \t you \t'), 'subject:Hello you');
  for (const other of ['\u00a0', '\u2003', '\u3000', '\ufeff', '\u2028', '\f', '\v']) {
    assert.equal(subject(` ${other}Hello${other} `), `subject:${other}Hello${other}`);
  }
});
