/**
 * DKIM signatures (RFC 6376, 8301, 8463): RSA-2048 and Ed25519, relaxed/relaxed.
 *
 * Signing either succeeds or throws, and only uses keys of the From domain in the signed octets. Fields for author,
 * recipients and interpretation are signed once more than they occur ("oversigned"), so a field added in transit
 * breaks the signature. There is no `l=`, so appended text breaks it, too. The body is hashed once for all keys.
 * Private key operations run on the thread pool.
 */
import { createHash, generateKeyPair, hash, type Hash, type KeyObject, sign } from 'node:crypto';
import { promisify } from 'node:util';
import { authorOf } from './address-fields.ts';
import { domainOf } from './address.ts';
import type { RawMessageParts } from './mime/raw-message.ts';
import type { ComposedMessage } from './compose.ts';
import { headerField, type HeaderField, headerLine } from './mime/header.ts';

const KEY_TYPES = { 'rsa-sha256': 'rsa', 'ed25519-sha256': 'ed25519' } as const;
const LF = 10;
const CR = 13;

/** Thrown when the message must not be sent with a signature; no retry can succeed. */
export class Unsignable extends Error {}

export type DkimAlgorithm = 'rsa-sha256' | 'ed25519-sha256';

/** `privateKey` is parsed, because parsing PEM takes longer than signing. */
export type DkimKey = {
  domain: string;
  selector: string;
  algorithm: DkimAlgorithm;
  privateKey: KeyObject;
};

/** Fields that mail programs interpret or show. None can be added or repeated in transit. */
const OVERSIGNED = [
  'from',
  'sender',
  'reply-to',
  'to',
  'cc',
  'subject',
  'date',
  'message-id',
  'mime-version',
  'content-type',
  'content-transfer-encoding',
  'list-unsubscribe',
  'list-unsubscribe-post',
  'feedback-id',
];
/**
 * Fields that are signed if present, beside the oversigned ones (RFC 6376 §5.4.1). RFC 8058 requires both
 * List-Unsubscribe fields, and Gmail's feedback loop requires Feedback-ID. Other custom fields are not signed,
 * because filters of receivers rewrite some before verification.
 */
const SIGNED = new Set([
  ...OVERSIGNED,
  'in-reply-to',
  'references',
  'auto-submitted',
  'list-archive',
  'list-help',
  'list-id',
  'list-owner',
  'list-post',
  'list-subscribe',
]);

/** `t=` and `x=`, in seconds since 1970, the same at every attempt. A copy replayed after `x=` does not verify. */
export type SignatureTimes = { signedAtS: number; expiresAtS: number };

/**
 * Returns the complete message: signatures and header as one piece, then the body.
 * @throws Unsignable when there is not exactly one author, or the author is of another domain than a key
 */
export async function signMessage(
  { fromDomain, headers, body }: ComposedMessage,
  keys: readonly DkimKey[],
  times: SignatureTimes,
): Promise<Buffer[]> {
  const signatures = await createSignatures({ fromDomain, headers, body }, keys, times);
  const lines = [...signatures, ...headers].map(headerLine).join('');
  return [Buffer.from(`${lines}\r\n`), ...body];
}

/** Signs a raw submitted message: the signatures precede it. */
export async function signRawMessage(
  { raw, headers, body, isCut }: RawMessageParts,
  {
    fromDomain,
    keys,
    times,
  }: { fromDomain: string; keys: readonly DkimKey[]; times: SignatureTimes },
): Promise<Buffer[]> {
  if (isCut) throw new Unsignable('The header has too many fields to sign.');
  const signatures = await createSignatures({ fromDomain, headers, body: [body] }, keys, times);
  return [Buffer.from(signatures.map(headerLine).join('')), raw];
}

function createSignatures(
  { fromDomain, headers, body }: ComposedMessage,
  keys: readonly DkimKey[],
  times: SignatureTimes,
): Promise<HeaderField[]> {
  if (keys.length === 0) throw new Error('There is no key to sign the message with.');
  requireAuthorDomain(headers, fromDomain);
  for (const key of keys) requireMatchingKey(key, fromDomain);
  const bodyHash = relaxedBodyHash(body);
  const signed = selectSignedFields(headers);
  return Promise.all(keys.map((key) => createSignatureField(key, { bodyHash, times, signed })));
}

/** Checks the signed fields themselves, independently of earlier checks. */
function requireAuthorDomain(headers: readonly HeaderField[], fromDomain: string): void {
  const author = authorOf(headers);
  if (author === null) throw new Unsignable('From is not exactly one field with one address.');
  const domain = domainOf(author);
  if (domain !== fromDomain) {
    throw new Unsignable(`From is of ${domain}, and the email was accepted for ${fromDomain}.`);
  }
}

function requireMatchingKey({ domain, algorithm, privateKey }: DkimKey, fromDomain: string): void {
  if (domain !== fromDomain) {
    throw new Unsignable(`A key of ${domain} would sign for ${fromDomain}.`);
  }
  if (privateKey.asymmetricKeyType === KEY_TYPES[algorithm]) return;
  throw new Error(`A key for ${algorithm} is of type ${privateKey.asymmetricKeyType}.`);
}

/** `tag`: the words of `h=`. `canonical`: the canonical form of the fields in it. */
type SignedFields = { tag: readonly string[]; canonical: string };

/** Verifiers use fields of one name from the last to the first (RFC 6376 §5.4.2). */
function selectSignedFields(headers: readonly HeaderField[]): SignedFields {
  const names: string[] = [];
  let canonical = '';
  for (const header of headers.toReversed()) {
    const name = header.name.toLowerCase();
    if (!SIGNED.has(name)) continue;
    names.push(name);
    canonical += `${relaxedField(header)}\r\n`;
  }
  const tag = foldableWords(`h=${[...names, ...OVERSIGNED].join(':')};`, /.{1,70}[:;]/g);
  return { tag, canonical };
}

type Signable = { bodyHash: string; times: SignatureTimes; signed: SignedFields };

async function createSignatureField(key: DkimKey, { bodyHash, times, signed }: Signable) {
  const { algorithm, domain, selector } = key;
  const { name, value } = headerField('DKIM-Signature', [
    `v=1; a=${algorithm}; c=relaxed/relaxed; d=${domain};`,
    ` s=${selector};`,
    ` t=${times.signedAtS}; x=${times.expiresAtS};`,
    ...signed.tag,
    ` bh=${bodyHash};`,
  ]);
  const unsigned = { name, value: `${value}\r\n b=` };
  const data = Buffer.from(signed.canonical + relaxedField(unsigned));
  const signature = (await signData(key, data)).toString('base64');
  const folded = foldableWords(signature, /.{1,72}/g)
    .join('\r\n')
    .trimStart();
  return { name, value: unsigned.value + folded };
}

/** Splits a value for folding; white space has no meaning in `h=` and `b=`. */
function foldableWords(text: string, word: RegExp): string[] {
  return (text.match(word) ?? []).map((piece) => ` ${piece}`);
}

function signData({ algorithm, privateKey }: DkimKey, data: Buffer): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const done = (error: Error | null, signature: Buffer): void =>
    error ? reject(error) : resolve(signature);
  if (algorithm === 'rsa-sha256') sign('sha256', data, privateKey, done);
  // RFC 8463 §3: Ed25519 signs the SHA-256 of the data.
  else sign(null, hash('sha256', data, 'buffer'), privateKey, done);
  return promise;
}

export type DkimKeyPair = {
  /** PKCS#8 in PEM. */
  privateKey: string;
  /** Base64, as in the DNS record: SubjectPublicKeyInfo of RSA, 32 bytes of Ed25519. */
  publicKey: string;
};

/** Generates RSA of 2048 bits (RFC 8301) and Ed25519. An existing RSA key replaces the new one. */
export async function generateDkimKeys(
  existing?: DkimKeyPair,
): Promise<{ rsa: DkimKeyPair; ed25519: DkimKeyPair }> {
  const [rsa, ed25519] = await Promise.all([existing ?? generateRsa(), generateEd25519()]);
  return { rsa, ed25519 };
}

const generate = promisify(generateKeyPair);
const pem = (key: KeyObject): string => key.export({ type: 'pkcs8', format: 'pem' });
const der = (key: KeyObject): Buffer => key.export({ type: 'spki', format: 'der' });

async function generateRsa(): Promise<DkimKeyPair> {
  const { privateKey, publicKey } = await generate('rsa', { modulusLength: 2048 });
  return { privateKey: pem(privateKey), publicKey: der(publicKey).toString('base64') };
}

async function generateEd25519(): Promise<DkimKeyPair> {
  const { privateKey, publicKey } = await generate('ed25519', {});
  // RFC 8463 §4: the bare key, which is the end of the SubjectPublicKeyInfo.
  return {
    privateKey: pem(privateKey),
    publicKey: der(publicKey).subarray(-32).toString('base64'),
  };
}

/**
 * Returns the algorithms that sign a message. A key is not used while receivers find only the record of the other.
 * If they find neither, RSA signs, which most can verify.
 * @param dualSigned whether the Ed25519 record was published when the email was accepted; a later record adds no
 * signature to retries
 */
export function signingAlgorithms(
  { rsaPublished, ed25519Verified }: { rsaPublished: boolean; ed25519Verified: boolean },
  dualSigned: boolean,
): DkimAlgorithm[] {
  if (!ed25519Verified) return ['rsa-sha256'];
  if (!rsaPublished) return ['ed25519-sha256'];
  return dualSigned ? ['rsa-sha256', 'ed25519-sha256'] : ['rsa-sha256'];
}

/** Returns the TXT value at `<selector>._domainkey.<domain>`. */
export function dkimRecordValue(publicKey: string, algorithm: DkimAlgorithm): string {
  return `v=DKIM1; k=${algorithm === 'rsa-sha256' ? 'rsa' : 'ed25519'}; p=${publicKey}`;
}

/** Returns `name:value` (RFC 6376 §3.4.2): lower-case name, unfolded, single spaces, no CRLF. */
export function relaxedField({ name, value }: HeaderField): string {
  // Keeps other white space, such as a non-breaking space, like verifiers. trim() would remove it.
  const relaxed = value.replace(/[ \t\r\n]+/g, ' ').replace(/^ | $/g, '');
  return `${name.toLowerCase()}:${relaxed}`;
}

/**
 * Returns the SHA-256 of the canonical body in base64 (RFC 6376 §3.4.4): runs of white space as one space, none at
 * line ends, no empty lines at the end.
 * @param body pieces of whole lines with CRLF, as in a ComposedMessage
 */
export function relaxedBodyHash(body: readonly Buffer[]): string {
  const sha256 = createHash('sha256');
  let emptyLines = 0;
  for (const piece of body) emptyLines = hashPiece(sha256, relaxedPiece(piece), emptyLines);
  return sha256.digest('base64');
}

/** Base64 and most quoted-printable bodies need no change and are not copied. */
function relaxedPiece(piece: Buffer): Buffer {
  if (!piece.includes('  ') && !piece.includes('\t') && !piece.includes(' \r')) return piece;
  const text = piece.toString('latin1').replace(/[ \t]{2,}|\t/g, ' ');
  return Buffer.from(text.replaceAll(' \r\n', '\r\n'), 'latin1');
}

/**
 * Hashes a piece. Empty lines are hashed only when another line follows.
 * @param emptyLines empty lines before this piece that are not hashed yet
 * @returns empty lines at the end of this piece
 */
function hashPiece(sha256: Hash, piece: Buffer, emptyLines: number): number {
  let end = piece.length;
  while (end >= 2 && piece[end - 1] === LF && piece[end - 2] === CR) end -= 2;
  const lineEnds = (piece.length - end) / 2;
  if (end === 0) return emptyLines + lineEnds;
  if (emptyLines > 0) sha256.update('\r\n'.repeat(emptyLines));
  // Up to the CRLF of the last non-empty line.
  sha256.update(piece.subarray(0, end + 2));
  return lineEnds - 1;
}
