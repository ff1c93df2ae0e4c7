/** Responses of authenticators, byte by byte. test/api/passkeys.test.ts has the rules of a whole sign-in. */
import assert from 'node:assert/strict';
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import { Authenticator } from '../../../test/support/authenticator.ts';
import { verifyAssertion, verifyRegistration } from './webauthn.ts';

const SITE = {
  origin: 'https://mail.acme.test',
  rpId: 'mail.acme.test',
  challenge: 'c'.repeat(43),
};
const REQUEST = { challenge: SITE.challenge, host: SITE.rpId };

function registrationOf(authenticator: Authenticator) {
  const created = authenticator.create(REQUEST, SITE);
  return {
    clientData: Buffer.from(created.client_data, 'base64url'),
    authenticatorData: Buffer.from(created.authenticator_data, 'base64url'),
    publicKey: Buffer.from(created.public_key, 'base64url'),
    algorithm: created.algorithm,
  };
}

function assertionOf(authenticator: Authenticator) {
  const used = authenticator.use(REQUEST, SITE);
  return {
    clientData: Buffer.from(used.client_data, 'base64url'),
    authenticatorData: Buffer.from(used.authenticator_data, 'base64url'),
    signature: Buffer.from(used.signature, 'base64url'),
  };
}

const spkiOf = (key: KeyObject) => key.export({ type: 'spki', format: 'der' });

test('a key of another kind than its algorithm, or a weak one, is not stored', () => {
  const registration = registrationOf(new Authenticator());
  assert.equal(verifyRegistration(registration, SITE).ok, true);
  const p384 = generateKeyPairSync('ec', { namedCurve: 'secp384r1' }).publicKey;
  const rsa1024 = generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey;
  for (const change of [
    { publicKey: spkiOf(p384) },
    { publicKey: spkiOf(rsa1024), algorithm: -257 },
    { algorithm: -8 },
    { algorithm: -257 },
    { algorithm: -65_535 },
    { publicKey: Buffer.from('no key') },
  ]) {
    const verified = verifyRegistration({ ...registration, ...change }, SITE);
    assert.deepEqual(verified, { ok: false, problem: 'the public key is not of a supported kind' });
  }
});

test('a signature is valid for these bytes and this key only', () => {
  const authenticator = new Authenticator();
  const { publicKey, algorithm } = registrationOf(authenticator);
  const assertion = assertionOf(authenticator);
  const expected = { ...SITE, publicKey, algorithm };
  assert.equal(verifyAssertion(assertion, expected).ok, true);
  const other = registrationOf(new Authenticator()).publicKey;
  assert.equal(verifyAssertion(assertion, { ...expected, publicKey: other }).ok, false);
  for (const part of ['clientData', 'authenticatorData', 'signature'] as const) {
    for (let at = 0; at < assertion[part].length; at += 1) {
      const damaged = Buffer.from(assertion[part]);
      damaged[at]! ^= 0x20;
      const isValid = verifyAssertion({ ...assertion, [part]: damaged }, expected).ok;
      assert.equal(isValid, false, `${part} ${at}`);
    }
  }
});

test('bytes of any kind are refused without an exception', () => {
  const authenticator = new Authenticator();
  const registration = registrationOf(authenticator);
  const assertion = assertionOf(authenticator);
  const { publicKey, algorithm } = registration;
  const bytes = fc.uint8Array({ maxLength: 200 }).map((array) => Buffer.from(array));
  const cut = fc.nat({ max: 200 });
  fc.assert(
    fc.property(bytes, cut, (noise, length) => {
      for (const part of ['clientData', 'authenticatorData', 'publicKey'] as const) {
        const isValid = verifyRegistration({ ...registration, [part]: noise }, SITE).ok;
        assert.equal(isValid, false);
      }
      const short = registration.authenticatorData.subarray(0, length);
      const isComplete = short.length === registration.authenticatorData.length;
      const shortened = { ...registration, authenticatorData: short };
      assert.equal(verifyRegistration(shortened, SITE).ok, isComplete);
      for (const part of ['clientData', 'authenticatorData', 'signature'] as const) {
        const damaged = { ...assertion, [part]: noise };
        assert.equal(verifyAssertion(damaged, { ...SITE, publicKey, algorithm }).ok, false);
      }
    }),
  );
});
