/**
 * One order of a certificate for one host name, from the account to the chain (RFC 8555 §7.1):
 *
 *   account → order (pending) → challenge HTTP-01 or DNS-01 → order (ready) → finalize → order (valid) → chain
 *
 * An order can be continued by its URL, at whatever step an earlier process died. The server validates a name only
 * after `publish` has resolved, so every node can answer by then.
 */
import { createPrivateKey, type X509Certificate } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { makeCertificateRequest } from '../tls/certificate-request.ts';
import { readChain } from '../tls/chain.ts';
import type { AcmeClient, ExternalAccount } from './acme-client.ts';
import { AcmeError, problemOf } from './acme-error.ts';

export type OrderOptions = {
  name: string;
  email: string | null;
  externalAccount?: ExternalAccount | null;
  /** Default: `http-01`. */
  challenge?: 'http-01' | 'dns-01';
  /** The id of the certificate that is renewed; null for none. */
  replaces?: string | null;
  /** PEM, of a key for this certificate only. */
  privateKey: string;
  /** URL of an order that is continued, which was made for the same key, or null for a new one. */
  orderUrl: string | null;
  /** Called with the URL of a new order before anything else is done with it. */
  onOrdered: (orderUrl: string) => Promise<void>;
  /** Makes the answer public: at `http://name/.well-known/acme-challenge/<token>`, or as a record in DNS. */
  publish: (challenge: { token: string; keyAuthorization: string }) => Promise<void>;
  /** Called before the server is asked to validate the name, which counts towards its limit of failures. */
  onValidating: () => void;
  signal: AbortSignal;
};

const POLL_FIRST_MS = 250;
const POLL_MAX_MS = 10_000;
/** RFC 8555 §8.3: base64url with 128 bits at least. The token becomes part of a path and a row. */
const TOKEN = /^[A-Za-z0-9_-]{16,256}$/;

const REPLACES_REFUSED = ['alreadyReplaced', 'malformed'];

type Body = Record<string, unknown>;

/** @returns the chain in PEM @throws AcmeError */
export async function orderCertificate(client: AcmeClient, options: OrderOptions): Promise<string> {
  await client.openAccount(options);
  const { url, order } = await openOrder(client, options);
  let current = order;
  if (current['status'] === 'pending') {
    for (const authorization of strings(current['authorizations'])) {
      await authorize(client, authorization, options);
    }
    current = await poll(client, url, ['pending'], options);
  }
  if (current['status'] === 'ready') {
    const csr = makeCertificateRequest(options.name, createPrivateKey(options.privateKey));
    const finalizeUrl = stringOf(current['finalize'], 'the URL that ends the order');
    await client.read(finalizeUrl, { csr: csr.toString('base64url') });
    current = await poll(client, url, ['ready', 'processing'], options);
  } else if (current['status'] === 'processing') {
    current = await poll(client, url, ['processing'], options);
  }
  if (current['status'] !== 'valid') throw failedOrder(current);
  const chain = await client.download(stringOf(current['certificate'], 'the certificate'));
  requireOurs(chain, options);
  return chain;
}

/** Continues an order unless the server has given it up. */
async function openOrder(
  client: AcmeClient,
  { name, orderUrl, onOrdered, replaces = null }: OrderOptions,
): Promise<{ url: string; order: Body }> {
  const known = orderUrl === null ? null : await readKnown(client, orderUrl);
  if (orderUrl !== null && known !== null) return { url: orderUrl, order: known };
  const opened = await client.newOrder(name, replaces).catch((error: unknown) => {
    // The server does not know the certificate, or another order replaces it.
    const isAboutIt = error instanceof AcmeError && REPLACES_REFUSED.includes(error.type);
    if (replaces === null || !isAboutIt) throw error;
    return client.newOrder(name);
  });
  await onOrdered(opened.url);
  return opened;
}

async function readKnown(client: AcmeClient, orderUrl: string): Promise<Body | null> {
  try {
    const { body } = await client.read(orderUrl);
    return body['status'] === 'invalid' ? null : body;
  } catch (error) {
    if (error instanceof AcmeError && error.type !== 'unreachable' && error.type !== 'rateLimited')
      return null;
    throw error;
  }
}

async function authorize(client: AcmeClient, url: string, options: OrderOptions): Promise<void> {
  const { body } = await client.read(url);
  if (body['status'] === 'valid') return; // of an earlier order
  const type = options.challenge ?? 'http-01';
  const challenge = findChallenge(body, type);
  const token = stringOf(challenge['token'], 'the token of the challenge');
  if (!TOKEN.test(token)) throw new AcmeError('protocol', 'The token of the server is invalid.');
  await options.publish({ token, keyAuthorization: client.keyAuthorization(token) });
  options.onValidating();
  if (challenge['status'] === 'pending') {
    await client.read(stringOf(challenge['url'], 'the URL of the challenge'), {});
  }
  const result = await poll(client, url, ['pending'], options);
  if (result['status'] === 'valid') return;
  const fallback = `The server could not validate ${options.name}.`;
  const problem = problemOf(findChallenge(result, type)['error'], fallback);
  throw new AcmeError(problem.type, problem.message);
}

function findChallenge({ challenges }: Body, type: 'http-01' | 'dns-01'): Body {
  const all: unknown[] = Array.isArray(challenges) ? challenges : [];
  const found = all.find((one): one is Body => (one as Body | null)?.['type'] === type);
  if (found !== undefined) return found;
  throw new AcmeError('protocol', `The server offers no validation by ${type}.`);
}

/** Reads the object until its status is none of `unfinished`. */
async function poll(
  client: AcmeClient,
  url: string,
  unfinished: readonly string[],
  { signal }: OrderOptions,
): Promise<Body> {
  for (let waitMs = POLL_FIRST_MS; ; waitMs = Math.min(waitMs * 2, POLL_MAX_MS)) {
    const { body, retryAfterMs } = await client.read(url);
    if (!unfinished.includes(String(body['status']))) return body;
    await pause(Math.max(waitMs, retryAfterMs ?? 0), null, { signal }).catch(() => {});
    if (signal.aborted) {
      throw new AcmeError('unreachable', 'The server did not complete the order in time.');
    }
  }
}

function failedOrder({ error, status }: Body): AcmeError {
  const { type, message } = problemOf(error, `The order has the status ${String(status)}.`);
  return new AcmeError(type, message);
}

/** A certificate that clients would refuse must not replace one that works. */
function requireOurs(chain: string, { name, privateKey }: OrderOptions): void {
  let certificate: X509Certificate;
  try {
    [certificate] = readChain(chain);
  } catch {
    throw new AcmeError('protocol', 'The server sent something else than certificates in PEM.');
  }
  const isFor = certificate.checkHost(name, { subject: 'never' }) !== undefined;
  if (isFor && certificate.checkPrivateKey(createPrivateKey(privateKey))) return;
  throw new AcmeError('protocol', 'The server sent a certificate for another name or key.');
}

function strings(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((one) => typeof one === 'string') : [];
}

function stringOf(value: unknown, what: string): string {
  if (typeof value === 'string' && value !== '') return value;
  throw new AcmeError('protocol', `The server does not send ${what}.`);
}
