/** DKIM keys that a client brings from another service, and what the error says about a file that has none. */
import assert from 'node:assert/strict';
import { createPublicKey, generateKeyPairSync } from 'node:crypto';
import { test } from 'node:test';
import { adviseKeySize, DKIM_PEM_MAX_LENGTH, readDkimKey, readSelector } from './dkim-import.ts';

const rsa = (modulusLength: number) => generateKeyPairSync('rsa', { modulusLength });
const { privateKey, publicKey } = rsa(2048);
const pkcs8 = privateKey.export({ type: 'pkcs8', format: 'pem' });
const pkcs1 = privateKey.export({ type: 'pkcs1', format: 'pem' });

async function problemOf(pem: string): Promise<string> {
  const read = await readDkimKey(pem);
  assert.ok('problem' in read, 'it was accepted');
  const [, line = 'none'] = pem.split('\n');
  assert.ok(!read.problem.includes(line), 'the problem has text of the key');
  return read.problem;
}

test('RSA keys of 1024 to 4096 bits are read as PKCS#8 and PKCS#1, with any line ends', async () => {
  const spki = publicKey.export({ type: 'spki', format: 'der' }).toString('base64');
  const crlf = `\ufeff\r\n${pkcs1.replaceAll('\n', '\r\n')}\r\n`;
  for (const pem of [pkcs8, pkcs1, crlf]) {
    assert.deepEqual(await readDkimKey(pem), { privateKey: pkcs8, publicKey: spki });
  }
  for (const bits of [1024, 4096]) {
    const pem = rsa(bits).privateKey.export({ type: 'pkcs1', format: 'pem' });
    const read = await readDkimKey(pem);
    assert.ok('publicKey' in read);
    const key = Buffer.from(read.publicKey, 'base64');
    const { asymmetricKeyDetails } = createPublicKey({ key, format: 'der', type: 'spki' });
    assert.equal(asymmetricKeyDetails?.modulusLength, bits);
    assert.equal(adviseKeySize(read.publicKey)?.includes('1024 bits') ?? false, bits === 1024);
  }
});

test('keys with a passphrase are refused with how to remove it', async () => {
  const secret = { cipher: 'aes-256-cbc', passphrase: 'secret' } as const;
  for (const type of ['pkcs8', 'pkcs1'] as const) {
    const pem = privateKey.export({ type, format: 'pem', ...secret });
    assert.match(await problemOf(pem), /encrypted with a passphrase; decrypt it first: openssl/);
  }
});

test('anything but one private RSA key of a permitted size is refused, and the error names its kind', async () => {
  const spki = publicKey.export({ type: 'spki', format: 'pem' });
  assert.match(await problemOf(spki), /public key; give the private key/);
  assert.match(await problemOf(publicKey.export({ type: 'pkcs1', format: 'pem' })), /public key/);
  const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
  assert.match(await problemOf(ec.export({ type: 'sec1', format: 'pem' })), /type ec/);
  assert.match(await problemOf(ec.export({ type: 'pkcs8', format: 'pem' })), /type ec/);
  const ed25519 = generateKeyPairSync('ed25519').privateKey;
  assert.match(await problemOf(ed25519.export({ type: 'pkcs8', format: 'pem' })), /type ed25519/);
  const pss = generateKeyPairSync('rsa-pss', { modulusLength: 2048 }).privateKey;
  assert.match(await problemOf(pss.export({ type: 'pkcs8', format: 'pem' })), /type rsa-pss/);
  for (const bits of [512, 768, 5120]) {
    const pem = rsa(bits).privateKey.export({ type: 'pkcs8', format: 'pem' });
    assert.match(await problemOf(pem), new RegExp(`RSA key of ${bits} bits; it must have 1024`));
  }
  assert.match(await problemOf(`${pkcs8}${pkcs8}`), /has 2 keys/);
  assert.match(await problemOf(`${spki}${pkcs8}`), /has 2 keys/);
  assert.match(await problemOf('MIIEvQIBADANBgkq'), /not in PEM/);
  assert.match(await problemOf(pkcs8.slice(0, 600)), /not a private key in PEM, or is damaged/);
  assert.match(await problemOf('-----BEGIN CERTIFICATE-----\nMIIB\n'), /certificate/);
  assert.match(await problemOf('-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\n'), /ssh-keygen/);
  assert.match(await problemOf(`${pkcs8}${' '.repeat(DKIM_PEM_MAX_LENGTH)}`), /longer than 8 KB/);
});

test('a key with inconsistent numbers is refused', async () => {
  const der = privateKey.export({ type: 'pkcs1', format: 'der' });
  // Changes the modulus, which begins after 12 bytes.
  der.writeUInt8(der.readUInt8(100) ^ 1, 100);
  const pem = `-----BEGIN RSA PRIVATE KEY-----\n${der.toString('base64')}\n-----END RSA PRIVATE KEY-----\n`;
  assert.match(await problemOf(pem), /damaged key: its signatures do not verify/);
});

test('a selector has labels like a host name', () => {
  assert.deepEqual(readSelector('S1', 'acme.com'), { selector: 's1' });
  assert.deepEqual(readSelector('2024.mail-1', 'acme.com'), { selector: '2024.mail-1' });
  const wrong = [
    '',
    '.',
    's1.',
    's1._domainkey',
    's 1',
    's1;t=y',
    's1\r\nx',
    '-a',
    'a-',
    'é',
    'a'.repeat(64),
  ];
  for (const text of wrong) {
    assert.ok('problem' in readSelector(text, 'acme.com'), text);
  }
  const long = Array.from({ length: 3 }, () => 'a'.repeat(60)).join('.');
  assert.ok('problem' in readSelector(long, `${'b'.repeat(60)}.com`));
});
