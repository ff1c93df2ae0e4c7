/**
 * The DNS records that authorise this service to send for a domain.
 *
 * - DKIM, RSA and Ed25519: receivers check our signatures with them. Ed25519 is optional, because some
 *   receivers do not support it and some DNS panels refuse it.
 * - The return path `send.<domain>`: its MX names the host of the installation that receives bounces. Its
 *   SPF authorises the machines of the installation. A separate name leaves the MX and SPF of the domain
 *   unchanged.
 */
import { isIPv6 } from 'node:net';
import { isPublicAddress } from '../../net/ip-addresses.ts';
import type { MailHost } from '../mail-host-store.ts';

/** `name` and `value` are complete and have no trailing dot. */
export type ExpectedRecord = {
  record: 'DKIM' | 'SPF' | 'MX';
  type: 'TXT' | 'MX';
  name: string;
  value: string;
  /** Suggested TTL in seconds. */
  ttl: number;
  priority?: number;
  /** False when the domain is verified without it. */
  required: boolean;
  /** Only set for DKIM records of next or previous keys. */
  key?: 'next' | 'previous';
};

export const RECORD_STATUSES = [
  'not_started',
  'verified',
  'missing',
  'mismatch',
  'dns_error',
] as const;
export type RecordStatus = (typeof RECORD_STATUSES)[number];

export type CheckedRecord = ExpectedRecord & {
  status: RecordStatus;
  /** The records that DNS returns for the name; an MX has the form `10 host`. */
  found: string[];
  /** One sentence: what is wrong and what to do. For a `verified` record, what can be improved. */
  problem: string | null;
};

export type DomainSetup = {
  name: string;
  dkimSelectorRsa: string;
  dkimRecordRsa: string;
  dkimSelectorEd25519: string;
  dkimRecordEd25519: string;
  installation: InstallationHosts;
  otherKeys?: readonly OtherKey[];
};

/** A key that does not sign now. `value` is the value of its TXT record. */
export type OtherKey = { key: 'next' | 'previous'; selector: string; value: string };

/** The hosts of the installation that the records name. */
export type InstallationHosts = {
  returnPathHost: string;
  hosts: readonly MailHost[];
};

const TTL_S = 3_600;
const MX_PRIORITY = 10;
/** Half of a receiver's limit of ten look-ups (RFC 7208 §4.6.4). The owner may need the other half. */
const SPF_NAMES_MAX = 5;

function returnPathDomain(domainName: string): string {
  return `send.${domainName}`;
}

export function requiredRecords(domain: DomainSetup): ExpectedRecord[] {
  const returnPath = returnPathDomain(domain.name);
  const text = { type: 'TXT', ttl: TTL_S } as const;
  return [
    {
      record: 'DKIM',
      ...text,
      name: dkimName(domain.dkimSelectorRsa, domain.name),
      value: domain.dkimRecordRsa,
      required: true,
    },
    {
      record: 'DKIM',
      ...text,
      name: dkimName(domain.dkimSelectorEd25519, domain.name),
      value: domain.dkimRecordEd25519,
      required: false,
    },
    {
      record: 'MX',
      type: 'MX',
      name: returnPath,
      value: domain.installation.returnPathHost,
      ttl: TTL_S,
      priority: MX_PRIORITY,
      required: true,
    },
    {
      record: 'SPF',
      ...text,
      name: returnPath,
      value: spfValue(domain.installation),
      required: true,
    },
    ...otherKeyRecords(domain.name, domain.otherKeys ?? []),
  ];
}

export function otherKeyRecords(domainName: string, keys: readonly OtherKey[]): ExpectedRecord[] {
  return keys.map(({ key, selector, value }) => ({
    record: 'DKIM',
    type: 'TXT',
    name: dkimName(selector, domainName),
    value,
    ttl: TTL_S,
    required: false,
    key,
  }));
}

function dkimName(selector: string, domainName: string): string {
  return `${selector}._domainkey.${domainName}`;
}

export function uncheckedRecords(expected: readonly ExpectedRecord[]): CheckedRecord[] {
  return expected.map((record) => ({
    ...record,
    status: 'not_started',
    found: [],
    problem: null,
  }));
}

/**
 * Ends with `~all`: with `-all`, some receivers refuse forwarded mail before they check its DKIM signature. Many
 * hosts are replaced by their common name, which must have the addresses of all of them.
 */
function spfValue(installation: InstallationHosts): string {
  const mechanisms = [...new Set(installation.hosts.flatMap(spfMechanismsOf))];
  const names = mechanisms.filter((mechanism) => mechanism.startsWith('a:'));
  const addresses = mechanisms.filter((mechanism) => !mechanism.startsWith('a:'));
  const listedNames = names.length > SPF_NAMES_MAX ? [`a:${installation.returnPathHost}`] : names;
  return `v=spf1 ${[...addresses, ...listedNames].join(' ')} ~all`;
}

/**
 * Any of these sets proves that the owner authorised this service. A machine that was added or renamed later may be
 * missing from the record.
 */
export function sufficientSpf({ returnPathHost, hosts }: InstallationHosts): string[][] {
  return [[`a:${returnPathHost}`], ...hosts.map(spfMechanismsOf)];
}

/**
 * Prefers addresses to names, because `a:` costs one of the receiver's ten look-ups. Skips private addresses: a NAT
 * rewrites them, so receivers never see them.
 */
function spfMechanismsOf({ name, sourceIps }: MailHost): string[] {
  const addresses = sourceIps
    .filter(isPublicAddress)
    .map((ip) => (isIPv6(ip) ? `ip6:${ip}` : `ip4:${ip}`));
  return addresses.length > 0 ? addresses : [`a:${name}`];
}
