/**
 * The recipient domains of a run: domains without failures, and one domain for each failure of a receiver. A failure
 * lasts until it has met mail, then alternates with normal operation. In the end the domain accepts everything. This
 * file fixes the allowed final statuses; receivers.ts implements the domains.
 */
import type { FakeDns, FakeFailure } from '../../support/fake-dns.ts';
import type { MxBehaviour } from '../../support/fake-mx.ts';
import { AFTER_DOT, type ServerFault, SERVER_FAULTS, UNVERIFIED_TLS } from './behaviours.ts';

export type DomainFault =
  /** The domain's server has a failing behaviour. */
  | { kind: 'server'; fault: ServerFault }
  /** The domain's server has a failing behaviour, for mail with `tls: enforced`. */
  | { kind: 'unverified_tls'; behaviour: MxBehaviour }
  /** No server listens at the address. */
  | { kind: 'away' }
  /** No connection reaches the address. */
  | { kind: 'address'; address: string }
  /** DNS queries for the domain fail. */
  | { kind: 'dns'; failure: FakeFailure }
  /** The domain has unusual DNS records. */
  | { kind: 'records'; begin: (zone: Zone) => void; mayBounce?: true };

/** DNS records of a domain with a failure. */
export type Zone = {
  dns: FakeDns;
  domain: string;
  /** Name of the mail server, and its address. */
  host: string;
  address: string;
};

/** Address of the black hole, which answers no packet. */
export const SILENT_ADDRESS = '127.0.4.1';
/** Multicast address. TCP cannot connect to one: the system reports ENETUNREACH, and no packet leaves the machine. */
const UNREACHABLE_ADDRESS = '224.0.0.1';
/** Number of hosts that fill a DNS message of 64 KiB. */
const MANY_HOSTS = 1_000;

const FAILURES: readonly FakeFailure[] = [
  'servfail',
  'refused',
  'formerr',
  'no_edns',
  'timeout',
  'reset',
  'truncated',
  'truncated_only',
  'garbage',
  'wrong_id',
  'wrong_question',
  'forged_first',
  'referral',
  'overcounted',
  'crowded',
];

const RECORDS: Readonly<Record<string, Extract<DomainFault, { kind: 'records' }>>> = {
  'no data': {
    kind: 'records',
    mayBounce: true,
    begin({ dns, domain }) {
      dns.set(domain, 'MX', []);
      dns.set(domain, 'A', []);
    },
  },
  'null mx': {
    kind: 'records',
    mayBounce: true,
    begin: ({ dns, domain }) => dns.set(domain, 'MX', ['0 .']),
  },
  'not there': {
    kind: 'records',
    mayBounce: true,
    begin({ dns, domain, host }) {
      dns.remove(domain);
      dns.remove(host);
    },
  },
  'host without address': {
    kind: 'records',
    mayBounce: true,
    begin: ({ dns, domain }) => dns.set(domain, 'MX', [`10 nowhere.${domain}`]),
  },
  'cname loop': {
    kind: 'records',
    begin({ dns, domain }) {
      dns.remove(domain);
      dns.set(domain, 'CNAME', [`round.${domain}`]);
      dns.set(`round.${domain}`, 'CNAME', [domain]);
    },
  },
  'mx alias': {
    kind: 'records',
    begin({ dns, domain, host }) {
      dns.set(domain, 'MX', [`10 alias.${domain}`]);
      dns.set(`alias.${domain}`, 'CNAME', [host]);
    },
  },
  'no mx': {
    kind: 'records',
    begin: ({ dns, domain }) => dns.set(domain, 'MX', []),
  },
  'many mx': {
    kind: 'records',
    begin({ dns, domain, host }) {
      const others = Array.from({ length: MANY_HOSTS }, (_, n) => `20 m${n}.${domain}`);
      dns.set(domain, 'MX', [...others, `10 ${host}`]);
    },
  },
  'ipv6 only': {
    kind: 'records',
    begin({ dns, domain }) {
      dns.set(domain, 'MX', [`10 six.${domain}`]);
      dns.set(`six.${domain}`, 'AAAA', ['::1']);
    },
  },
  flapping: {
    kind: 'records',
    begin({ dns, domain, host }) {
      let count = 0;
      const answers = [[`10 ${host}`], [`10 nowhere.${domain}`, `20 ${host}`], [`30 ${host}`]];
      dns.set(domain, 'MX', () => answers[(count += 1) % answers.length]!);
    },
  },
};

const named = <Thing>(
  prefix: string,
  things: Readonly<Record<string, Thing>>,
  toFault: (thing: Thing) => DomainFault,
): [string, DomainFault][] =>
  Object.entries(things).map(([name, thing]) => [
    `${prefix}-${name.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-')}.example`,
    toFault(thing),
  ]);

/** Failures, by domain. */
export const FAILING_DOMAINS: Readonly<Record<string, DomainFault>> = Object.fromEntries([
  ...named('mx', SERVER_FAULTS, (fault) => ({ kind: 'server', fault })),
  ...named('tls', UNVERIFIED_TLS, (behaviour) => ({ kind: 'unverified_tls', behaviour })),
  ...named('to', { nobody: null }, () => ({ kind: 'away' })),
  ...named('to', { unreachable: UNREACHABLE_ADDRESS, silence: SILENT_ADDRESS }, (address) => ({
    kind: 'address',
    address,
  })),
  ...named('dns', Object.fromEntries(FAILURES.map((one) => [one, one])), (failure) => ({
    kind: 'dns',
    failure,
  })),
  ...named('dns', RECORDS, (fault) => fault),
]);

/** Domains whose best server fails after the final dot, and whose second server never fails. */
export const FALLBACK_DOMAINS: Readonly<Record<string, string>> = Object.fromEntries(
  named('mx', AFTER_DOT, (fault) => ({ kind: 'server', fault })).map(([domain]) => [
    `spare-${domain}`,
    domain,
  ]),
);

/** Domains that never fail, and domains that never have a mail server. `steps` has no PIPELINING. */
export const HEALTHY_DOMAINS = ['well.example', 'steps.example'] as const;
export const UNDELIVERABLE_DOMAINS = ['nullmx.example', 'unknown.example'] as const;

/** Domain that only test mail is sent to. It must never cause a DNS query. */
export const TEST_ONLY = 'testonly.example';

/** Returns the allowed final statuses of mail to a domain; null: the domain is not part of the run. */
export function endsOf(domain: string): readonly string[] | null {
  if (UNDELIVERABLE_DOMAINS.some((one) => one === domain)) return ['bounced'];
  if (HEALTHY_DOMAINS.some((one) => one === domain) || domain in FALLBACK_DOMAINS)
    return ['delivered'];
  const fault = FAILING_DOMAINS[domain];
  if (!fault) return null;
  return mayBounce(fault) ? ['delivered', 'bounced'] : ['delivered'];
}

function mayBounce(fault: DomainFault): boolean {
  if (fault.kind === 'server') return fault.fault.mayBounce === true;
  return fault.kind === 'records' && fault.mayBounce === true;
}
