import { test } from 'node:test';
import assert from 'node:assert/strict';
import { createPrivateKey } from 'node:crypto';
import fc from 'fast-check';
import { dkimVerify } from 'mailauth/lib/dkim/verify.js';
import { type DkimKey, dkimRecordValue, generateDkimKeys, signMessage } from './dkim.ts';
import { field } from './header.ts';
import { relaxedBodyHash, relaxedField } from './relaxed.ts';

const { ed25519 } = await generateDkimKeys();
const key: DkimKey = {
  domain: 'acme.test',
  selector: 'e1',
  algorithm: 'ed25519-sha256',
  privateKey: createPrivateKey(ed25519.privateKey),
};
const record = dkimRecordValue(ed25519.publicKey, 'ed25519-sha256');

async function verdict(body: readonly Buffer[]): Promise<string | undefined> {
  const headers = [field('From', ['jo@acme.test'])];
  const parts = await signMessage({ fromDomain: 'acme.test', headers, body }, [key], {
    signedAtS: 1_790_000_000,
    expiresAtS: 9_999_999_999,
  });
  const { results } = await dkimVerify(Buffer.concat(parts), { resolver: async () => [[record]] });
  return results[0]?.status.result;
}

/** Whole lines, more of them empty or ending with white space than any mail has. */
const line = fc
  .array(fc.constantFrom(' ', '  ', '\t', 'a', '.', 'é', '\u00a0'), { maxLength: 6 })
  .map((parts) => `${parts.join('')}\r\n`);
const piece = fc
  .array(fc.oneof(line, fc.constantFrom('\r\n', ' \r\n')), { maxLength: 8 })
  .map((lines) => Buffer.from(lines.join('')));

test('the hash of any body is the one that others compute', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(piece, { maxLength: 4 }), async (body) => {
      assert.equal(await verdict(body), 'pass');
    }),
    { numRuns: 400 },
  );
});

test('it does not matter how a body is cut into pieces', () => {
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

test('of a field only spaces, tabs and folds are white space (RFC 6376 §2.8)', () => {
  const subject = (value: string) => relaxedField({ name: 'Subject', value });
  assert.equal(subject(' \t Hello\r\n \t you \t'), 'subject:Hello you');
  for (const other of ['\u00a0', '\u2003', '\u3000', '\ufeff', '\u2028', '\f', '\v']) {
    assert.equal(subject(` ${other}Hello${other} `), `subject:${other}Hello${other}`);
  }
});
