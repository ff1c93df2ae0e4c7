/** Published DKIM records with every kind of mistake. mailauth, which shares no code with us, decides as well. */
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { test } from 'node:test';
import { dkimSign, dkimVerify } from 'mailauth';
import { compareDkim } from './compare-dkim.ts';
import { problemText } from './record-comparison.ts';

const RSA = generateKeyPairSync('rsa', { modulusLength: 2048 });
const RSA_KEY = RSA.publicKey.export({ type: 'spki', format: 'der' }).toString('base64');
const OTHER_KEY = generateKeyPairSync('rsa', { modulusLength: 2048 })
  .publicKey.export({ type: 'spki', format: 'der' })
  .toString('base64');
const RSA_RECORD = `v=DKIM1; k=rsa; p=${RSA_KEY}`;
const ED_RECORD = 'v=DKIM1; k=ed25519; p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=';

/** Maps a mistake to the published records and the problem that is reported. */
const DKIM_MISTAKES: Record<string, [string[], RegExp]> = {
  'quotation marks around the value': [[`"${RSA_RECORD}"`], /quotation marks/],
  'quotation marks between pasted strings': [
    [`${RSA_RECORD.slice(0, 200)}" "${RSA_RECORD.slice(200)}`],
    /quotation marks/,
  ],
  'typographic quotation marks': [[`“${RSA_RECORD}”`], /quotation marks/],
  'backslashes before the semicolons': [[RSA_RECORD.replaceAll(';', '\\;')], /backslashes/],
  'a key that is cut off': [[RSA_RECORD.slice(0, 255)], /cut off after 237 of 392 characters/],
  'another key': [[`v=DKIM1; k=rsa; p=${OTHER_KEY}`], /another key is published/],
  'a key in lower case': [[RSA_RECORD.toLowerCase().replace('dkim1', 'DKIM1')], /upper and lower/],
  'a withdrawn key': [['v=DKIM1; k=rsa; p='], /revoked/],
  'foreign characters in the key': [[RSA_RECORD.replace('p=M', 'p=M\u200B')], /do not belong/],
  'the key alone': [[RSA_KEY], /holds only the key/],
  'another kind of key': [[ED_RECORD], /k=ed25519, but this key is of type rsa/],
  'another version': [[RSA_RECORD.replace('DKIM1', 'DKIM2')], /does not start with "v=DKIM1"/],
  'the version at the end': [[`k=rsa; p=${RSA_KEY}; v=DKIM1`], /does not start with "v=DKIM1"/],
  'signatures excluded': [[`${RSA_RECORD}; h=sha1`], /excludes sha256/],
  'mail excluded': [[`${RSA_RECORD}; s=tlsrpt`], /excludes mail/],
  'two keys': [[RSA_RECORD, `v=DKIM1; k=rsa; p=${OTHER_KEY}`], /2 TXT records at this name/],
  'another record beside it': [[RSA_RECORD, 'verification=abc'], /2 TXT records at this name/],
  'something else': [['v=spf1 -all'], /not a DKIM key \(it starts with "v=spf1 -all"\)/],
};

for (const [mistake, [texts, said]] of Object.entries(DKIM_MISTAKES)) {
  test(`a DKIM record with ${mistake} is reported as such`, () => {
    const { status, problem } = compareDkim(RSA_RECORD, texts);
    assert.equal(status, 'mismatch');
    assert.match(problemText(problem) ?? '', said);
  });
}

const DKIM_VARIANTS: Record<string, string> = {
  'as shown': RSA_RECORD,
  'with its tags in another order': `v=DKIM1;p=${RSA_KEY};k=rsa`,
  'without the optional tags': `p=${RSA_KEY}`,
  'with more tags and a final semicolon': `${RSA_RECORD}; h=sha1:sha256; s=email; t=s; n=x;`,
  'with white space inside the key': `v=DKIM1; k=rsa; p=${RSA_KEY.replaceAll(/(.{64})/g, '$1 ')}`,
};

for (const [variant, text] of Object.entries(DKIM_VARIANTS)) {
  test(`a DKIM record ${variant} is verified, and an independent verifier agrees`, async () => {
    assert.equal(compareDkim(RSA_RECORD, [text]).status, 'verified');
    assert.equal(await mailauthSays(text), 'pass');
  });
}

test('an independent verifier fails with another key', async () => {
  assert.equal(await mailauthSays(`v=DKIM1; k=rsa; p=${OTHER_KEY}`), 'fail');
});

test('white space inside a key is valid, with advice to remove it', () => {
  const judged = compareDkim(RSA_RECORD, [RSA_RECORD.replace('p=MII', 'p=MI I')]);
  assert.equal(judged.status, 'verified');
  assert.match(problemText(judged.problem) ?? '', /white space/);
  assert.deepEqual(compareDkim(ED_RECORD, [ED_RECORD]), { status: 'verified', problem: null });
});

async function mailauthSays(text: string): Promise<string | undefined> {
  const message = 'From: a@acme.com\r\nSubject: x\r\n\r\nhello\r\n';
  const privateKey = RSA.privateKey.export({ type: 'pkcs8', format: 'pem' });
  const key = { signingDomain: 'acme.com', selector: 'lh1', privateKey };
  // The types of mailauth require the key outside signatureData, its code requires it inside.
  const { signatures } = await dkimSign(message, { ...key, signatureData: [key] });
  const resolver = (_: string, type: string) => Promise.resolve(type === 'TXT' ? [[text]] : []);
  const verified = await dkimVerify(signatures + message, { resolver });
  return verified.results[0]?.status.result;
}
