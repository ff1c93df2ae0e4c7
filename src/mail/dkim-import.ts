/**
 * Imports a DKIM key from PEM, for a domain that has published its record already: RSA of 1024 to 4096 bits as
 * PKCS#8 or PKCS#1, which verifiers must support (RFC 8301 §3.2). Everything else is refused with what to do, and no
 * message contains any of the text. The key must sign and verify once, because a damaged key would make invalid
 * signatures.
 */
import { createPrivateKey, createPublicKey, type KeyObject, sign, verify } from 'node:crypto';
import { promisify } from 'node:util';
import type { DkimKeyPair } from './dkim.ts';

export const DKIM_PEM_MAX_LENGTH = 8 * 1024;
const BITS_MIN = 1024;
const BITS_MAX = 4096;
/** With fewer bits, receivers may distrust the signature (RFC 8301 §3.2: signers SHOULD use 2048). */
const BITS_GOOD = 2048;

type Problem = { problem: string };

const BEGIN = /-----BEGIN ([A-Z0-9 ]{1,40})-----/g;
const ADVICE: Readonly<Record<string, string>> = {
  'ENCRYPTED PRIVATE KEY':
    'is encrypted with a passphrase; decrypt it first: openssl pkey -in key.pem -out plain.pem',
  'EC PRIVATE KEY': 'is a key of type ec; only RSA keys can be imported',
  'OPENSSH PRIVATE KEY':
    'is in the format of OpenSSH; convert it first: ssh-keygen -p -m PEM -f key.pem',
  CERTIFICATE: 'is a certificate; give the private key',
};
const LABEL = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
const NAME_MAX_LENGTH = 253;
/** Length in base64 of a public key of 2048 bits. Shorter keys are parsed for their size. */
const GOOD_KEY_LENGTH = 392;

/** @returns the pair in the form of generated ones, or a problem that continues the name of the field */
export async function readDkimKey(pem: string): Promise<DkimKeyPair | Problem> {
  const problem = textProblem(pem);
  if (problem !== null) return { problem };
  const privateKey = parsePrivateKey(pem);
  if (privateKey === null) {
    return { problem: 'is not a private key in PEM, or is damaged; give the whole file' };
  }
  const type = privateKey.asymmetricKeyType;
  if (type !== 'rsa') {
    return { problem: `is a key of type ${type}; only RSA keys can be imported` };
  }
  const bits = privateKey.asymmetricKeyDetails?.modulusLength ?? 0;
  if (bits < BITS_MIN || bits > BITS_MAX) {
    return {
      problem: `is an RSA key of ${bits} bits; it must have ${BITS_MIN} to ${BITS_MAX}: omit it, and a new key is generated`,
    };
  }
  if (!(await canSign(privateKey))) {
    return { problem: 'is a damaged key: its signatures do not verify; export it again' };
  }
  return {
    privateKey: privateKey.export({ type: 'pkcs8', format: 'pem' }),
    publicKey: createPublicKey(privateKey)
      .export({ type: 'spki', format: 'der' })
      .toString('base64'),
  };
}

function textProblem(pem: string): string | null {
  if (pem.length > DKIM_PEM_MAX_LENGTH) {
    return `is longer than ${DKIM_PEM_MAX_LENGTH / 1024} KB; give the private key alone`;
  }
  const labels = Array.from(pem.matchAll(BEGIN), ([, label = '']) => label);
  const [label] = labels;
  if (label === undefined) {
    return 'is not in PEM; it begins with -----BEGIN PRIVATE KEY----- or -----BEGIN RSA PRIVATE KEY-----';
  }
  if (labels.length > 1) {
    return `has ${labels.length} keys or certificates; give the private key alone`;
  }
  if (/^Proc-Type:.*ENCRYPTED/m.test(pem)) return ADVICE['ENCRYPTED PRIVATE KEY'] ?? null;
  if (label.endsWith('PUBLIC KEY'))
    return 'is a public key; give the private key that belongs to it';
  return ADVICE[label] ?? null;
}

function parsePrivateKey(pem: string): KeyObject | null {
  try {
    return createPrivateKey(pem);
  } catch {
    return null;
  }
}

async function canSign(privateKey: KeyObject): Promise<boolean> {
  const data = Buffer.from('letterhaus');
  try {
    // Asynchronous, because the numbers of a crafted key may take long.
    const signature = await promisify(sign)('sha256', data, privateKey);
    return await promisify(verify)('sha256', data, createPublicKey(privateKey), signature);
  } catch {
    return false;
  }
}

/** Parses a selector to lower case (RFC 6376 §3.1). `domain` is the name after `<selector>._domainkey`. */
export function readSelector(text: string, domain: string): { selector: string } | Problem {
  const selector = text.toLowerCase();
  if (!selector.split('.').every((label) => LABEL.test(label))) {
    return {
      problem:
        'must consist of letters, digits, hyphens and dots: the part of the record before ._domainkey, such as s1',
    };
  }
  if (`${selector}._domainkey.${domain}`.length > NAME_MAX_LENGTH) {
    return {
      problem: `is too long: the name of the record would have more than ${NAME_MAX_LENGTH}`,
    };
  }
  return { selector };
}

/** Returns what to do about a key that receivers may find too short; null when it is long enough. */
export function adviseKeySize(publicKey: string): string | null {
  if (publicKey.length >= GOOD_KEY_LENGTH) return null;
  const key = createPublicKey({
    key: Buffer.from(publicKey, 'base64'),
    format: 'der',
    type: 'spki',
  });
  const bits = key.asymmetricKeyDetails?.modulusLength ?? BITS_GOOD;
  if (bits >= BITS_GOOD) return null;
  return `The DKIM key has ${bits} bits, which some receivers distrust. After the move, rotate it (letterhaus domains rotate-dkim): the new key has ${BITS_GOOD} bits.`;
}
