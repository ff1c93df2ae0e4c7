import assert from 'node:assert/strict';
import { generateKeyPairSync, verify } from 'node:crypto';
import { test } from 'node:test';
import { canonicalJson } from './canonical-json.ts';
import { publicKeyPem, signCaseFile, verifyCaseFile } from './signed-file.ts';

const { publicKey, privateKey } = generateKeyPairSync('ed25519');
const raw = Buffer.from(publicKey.export({ format: 'jwk' }).x!, 'base64url').toString('base64');
const key = { publicKey: raw, privateKey };
const CONTENT = {
  made_at: '2026-11-27T08:00:00.000Z',
  email: { subject: 'Grüße', tags: [1, 2.5] },
};
const signed = signCaseFile(CONTENT, key);
const json = JSON.stringify(signed, null, 2);
const kindOf = (text: string): string => verifyCaseFile(text).kind;

test('a signed file is valid, also without its line breaks and with its names in another order', () => {
  assert.equal(kindOf(json), 'valid');
  assert.equal(kindOf(JSON.stringify(signed)), 'valid');
  assert.equal(kindOf(canonicalJson(signed)), 'valid');
});

test('any other tool verifies the signature, with the public key as PEM', () => {
  const { signature, ...content } = signed;
  const bytes = Buffer.from(canonicalJson(content));
  assert.ok(verify(null, bytes, publicKeyPem(raw), Buffer.from(signature, 'base64')));
});

test('a file with one changed byte is not valid, wherever the byte is', () => {
  const compact = Buffer.from(JSON.stringify(signed));
  for (let at = 0; at < compact.length; at += 1) {
    const changed = Buffer.from(compact);
    changed[at]! ^= 1;
    // Two bytes that differ in a blank or in the form of an escape would be equal texts; here there are none.
    assert.notEqual(kindOf(changed.toString('utf8')), 'valid', `byte ${at}`);
  }
});

test('a name that is added in front of the signed one is found, which most readers would show', () => {
  const doubled = json.replace('"made_at"', '"made_at": "2020-01-01T00:00:00.000Z",\n  "made_at"');
  assert.equal(verifyCaseFile(doubled).kind, 'changed');
});

test('a file that another key signed anew has another fingerprint', () => {
  const pair = generateKeyPairSync('ed25519');
  const x = Buffer.from(pair.publicKey.export({ format: 'jwk' }).x!, 'base64url').toString(
    'base64',
  );
  const forged = signCaseFile(CONTENT, { publicKey: x, privateKey: pair.privateKey });
  const verified = verifyCaseFile(JSON.stringify(forged));
  assert.ok(verified.kind === 'valid');
  assert.notEqual(verified.signer.fingerprint, signed.signer.fingerprint);
  const kept = { ...forged, signer: { ...forged.signer, fingerprint: signed.signer.fingerprint } };
  assert.equal(kindOf(JSON.stringify(kept)), 'changed');
});

test('what is no case file of this version is named so', () => {
  for (const text of ['', '[]', 'null', '{}', '{"object":"email"}', json.slice(0, -2)]) {
    assert.equal(kindOf(text), 'unreadable', text);
  }
  assert.match(
    (verifyCaseFile(JSON.stringify({ ...signed, version: 2 })) as { message: string }).message,
    /version 2/,
  );
});
