/**
 * Checks the certificates that this machine serves, at the start and every few seconds: whether they end
 * soon (core/thresholds.ts), are for another name, or cannot be used.
 *
 * The conditions `certificate.expiring` and `certificate.mismatch` end at the first check that finds no problem. Mail
 * and requests are accepted meanwhile, because clients decide whether they accept such a certificate.
 */
import type { X509Certificate } from 'node:crypto';
import { hostname as machineName } from 'node:os';
import { isIP } from 'node:net';
import { type NamesConfig, orderedFiles, orderedNames } from '../../certificates/wanted.ts';
import type { Config } from '../../config/config.ts';
import {
  CONDITION_LAPSES_AFTER_MS,
  type NewCondition,
  type OperatorEvents,
} from '../../core/operator-events.ts';
import { judgeCertificate } from '../../core/thresholds.ts';
import type { World } from '../../lib/world.ts';
import {
  API_VARIABLES,
  type CertificateFiles,
  type CertificatePair,
  endOfChain,
  lifeMsOf,
  MAIL_VARIABLES,
  readPair,
} from './certificates.ts';
import { DAY_MS } from '../../lib/units.ts';

/** A renewal replaces two files one after the other, so a mismatch counts from the second check on. */
const UNUSABLE_CHECKS = 2;
const NAMES_SHOWN = 5;

export type CertificateUse = {
  of: 'api' | 'tracking' | 'mail';
  files: CertificateFiles;
  /** Names that clients connect to and verify. Empty when they are not known here. */
  names: readonly string[];
  /** Whether the service made the certificate itself. It makes a new one at the start. */
  isOwn: boolean;
  /** Whether the service orders and renews it. */
  isOrdered: boolean;
};

type CertificateCondition = 'certificate.expiring' | 'certificate.mismatch';
type CertificateProblem = Pick<NewCondition, 'message' | 'remedy' | 'details'>;
type CertificateProblems = Record<CertificateCondition, CertificateProblem | null>;

export const SERVED = {
  api: { what: 'the API', variables: API_VARIABLES, nameVariable: 'LETTERHAUS_PUBLIC_URL' },
  tracking: {
    what: 'tracked links',
    variables: API_VARIABLES,
    nameVariable: 'LETTERHAUS_TRACKING_URL',
  },
  mail: { what: 'the mail ports', variables: MAIL_VARIABLES, nameVariable: 'LETTERHAUS_HOSTNAME' },
} as const;

type WatchOptions = { operatorEvents: OperatorEvents; world: Pick<World, 'now'> };

/** @property pair null: no usable certificate since the start */
type Seen = { pair: CertificatePair | null; unusableChecks: number };

/** Returns whether clients that verify the certificate refuse it, because no authority has issued it. */
export function isSelfSigned({ files, of }: CertificateUse): boolean {
  const pair = readPair(files, SERVED[of].variables);
  return 'chain' in pair && pair.chain[0].checkIssued(pair.chain[0]);
}

export class CertificateWatch {
  readonly #seen: ReadonlyMap<CertificateUse, Seen>;
  readonly #options: WatchOptions;

  constructor(uses: readonly CertificateUse[], options: WatchOptions) {
    this.#seen = new Map(uses.map((use) => [use, { pair: null, unusableChecks: 0 }]));
    this.#options = options;
  }

  check(): void {
    for (const [use, seen] of this.#seen) this.#checkUse(use, seen);
  }

  #checkUse(use: CertificateUse, seen: Seen): void {
    const read = readPair(use.files, SERVED[use.of].variables);
    const isUnusable = 'problem' in read;
    seen.unusableChecks = isUnusable ? seen.unusableChecks + 1 : 0;
    // While the files cannot be used, the service uses the pair that it read before.
    if (!isUnusable) seen.pair = read;
    if (seen.pair === null) return;
    const problems = findProblems(use, seen.pair, this.#options.world.now());
    if (isUnusable && seen.unusableChecks >= UNUSABLE_CHECKS) {
      problems['certificate.mismatch'] = unusable(use, read);
    }
    for (const type of ['certificate.expiring', 'certificate.mismatch'] as const) {
      this.#report(use, type, problems[type]);
    }
  }

  #report(
    use: CertificateUse,
    type: CertificateCondition,
    problem: CertificateProblem | null,
  ): void {
    const { operatorEvents } = this.#options;
    const subject = subjectOf(use);
    if (problem === null) return operatorEvents.clear({ type, subject });
    const details = { certificate: use.of, file: use.files.cert, ...problem.details };
    operatorEvents.raise({
      ...problem,
      type,
      subject,
      details,
      lapsesAfterMs: CONDITION_LAPSES_AFTER_MS,
    });
  }
}

function findProblems(
  use: CertificateUse,
  { chain }: CertificatePair,
  nowMs: number,
): CertificateProblems {
  return {
    'certificate.expiring': expiring(use, chain, nowMs),
    'certificate.mismatch': wrongName(use, chain[0]) ?? wrongChain(use, chain),
  };
}

function expiring(
  use: CertificateUse,
  chain: CertificatePair['chain'],
  nowMs: number,
): CertificateProblem | null {
  const end = endOfChain(chain);
  const leftMs = end.getTime() - nowMs;
  const lifeMs = lifeMsOf(chain);
  if (judgeCertificate({ leftMs, lifeMs }) === 'good') return null;
  const endsAt = end.toISOString();
  const day = endsAt.slice(0, 10);
  const days = Math.floor(leftMs / DAY_MS);
  const when = days > 1 ? `in ${days} days` : 'within two days';
  const message =
    leftMs <= 0
      ? `${nameOf(use)} ended on ${day}. Clients that verify it do not connect.`
      : `${nameOf(use)} ends on ${day}, ${when}.`;
  const remedy = use.isOrdered
    ? 'The service orders a new certificate, and repeats a failed order within 12 hours. The condition certificate.not_issued says why it failed.'
    : use.isOwn
      ? 'Restart the service, which makes a new one at the start.'
      : `Renew it in ${use.files.cert}. The service reads changed files within seconds, without a restart.`;
  return { message, remedy, details: { ends_at: endsAt, lifetime_seconds: lifeMs / 1_000 } };
}

function wrongName(use: CertificateUse, certificate: X509Certificate): CertificateProblem | null {
  const missing = use.names.filter((name) => !covers(certificate, name));
  if (missing.length === 0) return null;
  const { variables, nameVariable } = SERVED[use.of];
  const has = namesOf(certificate);
  const shown = has.slice(0, NAMES_SHOWN).join(', ') || 'no host';
  const wanted = missing.join(', ');
  return {
    message: `${nameOf(use)} is for ${shown}, and clients connect to ${wanted}. Clients that verify it refuse it.`,
    remedy: `Give ${variables.cert} a certificate for ${wanted}, or set ${nameVariable} to a name in the certificate.`,
    details: { names: has, missing },
  };
}

/** Clients that know only the root need the certificate between it and ours. */
function wrongChain(
  use: CertificateUse,
  chain: CertificatePair['chain'],
): CertificateProblem | null {
  const [certificate, ...others] = chain;
  if (others.length === 0 || others.some((one) => certificate.checkIssued(one))) return null;
  return {
    message: `${nameOf(use)} is followed by ${others.length} others in its file, and none of them has issued it. Clients cannot verify it.`,
    remedy: `Write the certificate and then that of its issuer to ${use.files.cert} (its issuer: ${oneLine(certificate.issuer)}).`,
    details: { issuer: oneLine(certificate.issuer) },
  };
}

function unusable(use: CertificateUse, { problem }: { problem: string }): CertificateProblem {
  return {
    message: `${nameOf(use)} cannot be read again: ${problem}`,
    remedy:
      'The previous one stays in use until the service stops. The next start needs both files.',
  };
}

function subjectOf({ of }: CertificateUse): string {
  return `${machineName()}, ${of}`;
}

function nameOf({ of }: CertificateUse): string {
  return `The certificate of ${SERVED[of].what} on ${machineName()}`;
}

/** Checks the alternative names only, as clients do (RFC 9525). The common name does not count. */
function covers(certificate: X509Certificate, name: string): boolean {
  if (isIP(name) > 0) return certificate.checkIP(name) !== undefined;
  return certificate.checkHost(name, { subject: 'never' }) !== undefined;
}

function namesOf({ subjectAltName = '' }: X509Certificate): string[] {
  return subjectAltName
    .split(', ')
    .flatMap((one) => /^(?:DNS|IP Address):(.+)$/.exec(one)?.[1] ?? []);
}

function oneLine(name: string): string {
  return name.trim().split('\n').join(', ');
}

type Names = Pick<
  Config,
  'host' | 'hostname' | 'isHostnameConfigured' | 'publicUrl' | 'trackingUrl' | 'trustedProxies'
>;

/** @param mail the files of the mail ports; null without mail ports */
export function certificateUses(
  config: Names & NamesConfig,
  mail: CertificateFiles | null,
): CertificateUse[] {
  const { apiTlsFiles, tlsFiles } = config;
  const ordered = orderedUses(config);
  const isMailOrdered = ordered.some(({ of }) => of === 'mail');
  const isOwn = tlsFiles === null;
  const configured = { isOrdered: false, isOwn: false };
  return [
    ...(apiTlsFiles === null
      ? []
      : [{ ...configured, of: 'api', files: apiTlsFiles, names: apiNames(config) } as const]),
    ...ordered,
    ...(mail === null || isMailOrdered
      ? []
      : [
          {
            ...configured,
            of: 'mail',
            files: mail,
            names: isOwn ? [] : mailNames(config),
            isOwn,
          } as const,
        ]),
  ];
}

function orderedUses(config: NamesConfig): CertificateUse[] {
  const names = orderedNames(config);
  const files = orderedFiles(config);
  return (['api', 'tracking', 'mail'] as const).flatMap((of) => {
    const [name, pair] = [names[of], files[of]];
    if (name === null || pair === null) return [];
    return [{ of, files: pair, names: [name], isOwn: false, isOrdered: true }];
  });
}

/** Returns no names behind a proxy: it has the certificate for clients, and decides which name it expects here. */
function apiNames({ host, publicUrl, trackingUrl, trustedProxies }: Names): string[] {
  if (trustedProxies.length > 0) return [];
  const urls = [publicUrl ?? urlOfHost(host), trackingUrl];
  const names = urls.flatMap((url) => (url?.startsWith('https:') ? new URL(url).hostname : []));
  return [...new Set(names.map((name) => name.replace(/^\[(.+)\]$/, '$1')))];
}

/** Returns null for an address to listen on, which does not show the name that clients use. */
function urlOfHost(host: string): string | null {
  return isIP(host) > 0 || host === 'localhost' ? null : `https://${host}`;
}

/** Returns no name for a system name without a dot, which clients do not connect to. */
function mailNames({ hostname, isHostnameConfigured }: Names): string[] {
  return isHostnameConfigured || hostname.includes('.') ? [hostname] : [];
}
