/**
 * The certificates of this service: the operator's files for the API and for the ports of mail, or a self-signed one
 * for mail in the data directory. Changed files are read again at the next handshake, so a renewal needs no restart.
 * Invalid files are logged, and the last valid ones stay in use.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { chmodSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createSecureContext, type SecureContext } from 'node:tls';
import type { Logger } from 'pino';
import type { World } from '../../lib/world.ts';
import { type CertificateChain, readChain } from '../../net/tls/chain.ts';
import { makeSelfSigned } from '../../net/tls/self-signed.ts';
import { DAY_MS } from '../../lib/units.ts';

export type CertificateFiles = { cert: string; key: string };

const CHECK_EVERY_MS = 2_000;
const OWN_VALID_MS = 3_650 * DAY_MS;
const OWN_VALID_BEFORE_MS = DAY_MS;
const RENEW_BEFORE_MS = 30 * DAY_MS;

export const MAIL_VARIABLES = { cert: 'LETTERHAUS_TLS_CERT', key: 'LETTERHAUS_TLS_KEY' };
export const API_VARIABLES = { cert: 'LETTERHAUS_API_TLS_CERT', key: 'LETTERHAUS_API_TLS_KEY' };

/** A certificate and its chain, for which the private key was found to fit. */
export type CertificatePair = { chain: CertificateChain };

/** Reads the operator's files. @returns the pair, or the problem as a sentence with the name of the variable */
export function readPair(
  files: CertificateFiles,
  names = MAIL_VARIABLES,
): CertificatePair | { problem: string } {
  const cert = readOr(files.cert);
  if (typeof cert !== 'string') return { problem: `${names.cert}: ${cert.problem}` };
  const key = readOr(files.key);
  if (typeof key !== 'string') return { problem: `${names.key}: ${key.problem}` };
  const chain = parse(() => readChain(cert));
  if (chain === null) {
    return {
      problem: `${names.cert}: ${files.cert} is no certificate in PEM. Give the full chain.`,
    };
  }
  const privateKey = parse(() => createPrivateKey(key));
  if (privateKey === null) {
    return {
      problem: `${names.key}: ${files.key} is no private key in PEM without a passphrase.`,
    };
  }
  if (chain[0].checkPrivateKey(privateKey)) return { chain };
  return {
    problem: `${names.key}: ${files.key} is not the key of ${files.cert}. Give a matching pair.`,
  };
}

/**
 * Checks the operator's files at the start. @returns the problem as a sentence with the name of the variable, or null
 * when there is none
 */
export function problemOf(
  files: CertificateFiles,
  nowMs: number,
  names = MAIL_VARIABLES,
): string | null {
  const pair = readPair(files, names);
  if ('problem' in pair) return pair.problem;
  const [certificate] = pair.chain;
  if (certificate.validToDate.getTime() > nowMs) return null;
  return `${names.cert}: ${files.cert} ended on ${certificate.validTo}. Renew it.`;
}

/**
 * Returns when clients begin to refuse the certificate: at its end, or at the end of its issuer's. Others in the file
 * do not count, because authorities hand out chains with an old root that clients ignore.
 */
export function endOfChain([certificate, ...others]: CertificatePair['chain']): Date {
  const issuer = others.find((one) => certificate.checkIssued(one));
  if (issuer === undefined || issuer.validToDate > certificate.validToDate) {
    return certificate.validToDate;
  }
  return issuer.validToDate;
}

/** Milliseconds from the beginning of the served certificate to its own end. */
export function lifeMsOf([certificate]: CertificatePair['chain']): number {
  return certificate.validToDate.getTime() - certificate.validFromDate.getTime();
}

/** Makes a certificate for this host in the data directory, unless there is a valid one. */
export function keepOwnCertificate(
  options: { dataDir: string; hostname: string },
  { world, log }: { world: Pick<World, 'now'>; log: Logger },
): CertificateFiles {
  const { dataDir, hostname } = options;
  const path = join(dataDir, 'secrets', 'mail-tls.pem');
  const nowMs = world.now();
  const known = parse(() => new X509Certificate(readFileSync(path)));
  const isGood =
    known?.checkHost(hostname) !== undefined &&
    known.validToDate.getTime() > nowMs + RENEW_BEFORE_MS;
  if (!isGood) {
    const validity = { fromMs: nowMs - OWN_VALID_BEFORE_MS, untilMs: nowMs + OWN_VALID_MS };
    const { certificate, privateKey } = makeSelfSigned(hostname, validity);
    writeFileSync(`${path}.new`, certificate + privateKey, { mode: 0o600 });
    chmodSync(`${path}.new`, 0o600);
    renameSync(`${path}.new`, path);
  }
  log.warn(
    { certificate: path },
    'mail is received with a self-signed certificate; set LETTERHAUS_TLS_CERT and LETTERHAUS_TLS_KEY for one that clients can verify',
  );
  return { cert: path, key: path };
}

type Pems = { cert: Buffer; key: Buffer };

type ReloadedOptions = {
  /** Name of the certificate in the log, for example `the mail ports`. */
  of: string;
  world: Pick<World, 'monotonicMs'>;
  log: Logger;
};

export class ReloadedCertificate {
  readonly #files: CertificateFiles;
  readonly #options: ReloadedOptions;
  #pems: Pems | null = null;
  #context: SecureContext | null = null;
  #seen = '';
  #checkedAtMs = -Infinity;

  constructor(files: CertificateFiles, options: ReloadedOptions) {
    this.#files = files;
    this.#options = options;
    this.#loadIfChanged();
  }

  /** Returns the context for one handshake; null while there is no valid certificate. */
  context(): SecureContext | null {
    this.#loadIfChanged();
    return this.#context;
  }

  /** Returns the files in PEM. The object is a new one after the files have changed. */
  pems(): Pems | null {
    this.#loadIfChanged();
    return this.#pems;
  }

  #loadIfChanged(): void {
    const { world, log, of } = this.#options;
    const nowMs = world.monotonicMs();
    if (nowMs - this.#checkedAtMs < CHECK_EVERY_MS) return;
    this.#checkedAtMs = nowMs;
    try {
      const seen = `${stamp(this.#files.cert)} ${stamp(this.#files.key)}`;
      if (seen !== this.#seen) this.#load();
      this.#seen = seen;
    } catch (error) {
      log.error({ err: error, ...this.#files }, `the certificate of ${of} cannot be read`);
    }
  }

  #load(): void {
    const [cert, key] = [readFileSync(this.#files.cert), readFileSync(this.#files.key)];
    this.#context = createSecureContext({ cert, key, minVersion: 'TLSv1.2' });
    this.#pems = { cert, key };
  }
}

function stamp(path: string): string {
  const { ino, size, mtimeMs } = statSync(path);
  return `${ino} ${size} ${mtimeMs}`;
}

function readOr(path: string): string | { problem: string } {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const why = code === 'ENOENT' ? 'does not exist' : `cannot be read (${code})`;
    return { problem: `${path} ${why}. Write the path of a file that this user may read.` };
  }
}

function parse<Value>(read: () => Value): Value | null {
  try {
    return read();
  } catch {
    return null;
  }
}
