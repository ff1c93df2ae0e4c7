/**
 * Adds the records of a domain at its DNS provider. The command `go-live` and the API share it.
 *
 * Only records that DNS or the provider does not have are added. Records of others are neither changed nor removed.
 */
import { dmarcReportAddress } from '../domains/dmarc/dmarc.ts';
import type { DnsProvider, DnsZone } from '../net/dns-provider/dns-provider.ts';
import { type PlannedRecord, planRecord, type WantedRecord } from './record-plan.ts';

/** A record of a domain as the API has it. */
type DomainRecord = {
  record: 'DKIM' | 'SPF' | 'MX';
  type: 'TXT' | 'MX';
  name: string;
  value: string;
  ttl: number;
  priority?: number | undefined;
  status: string;
  key?: string | undefined;
};

export type KnownRecord = { record: WantedRecord; isInDns: boolean };

/** Returns the records that the domain needs. Those of previous DKIM keys are published already. */
export function recordsOf({ records }: { records: readonly DomainRecord[] }): KnownRecord[] {
  return records
    .filter(({ key }) => key !== 'previous')
    .map(({ record: purpose, type, name, value, ttl: ttlS, priority, status }) => {
      const whole = type === 'MX' ? `${priority ?? 10} ${value}` : value;
      const record = { purpose, name: name.toLowerCase(), type, value: whole, ttlS };
      return { record, isInDns: status === 'verified' };
    });
}

/**
 * Returns the record for a domain without DMARC. `p=none` changes nothing for its mail. Where the service receives
 * mail, it reads the reports.
 */
export function firstDmarcRecord(
  domain: string,
  { inboundPort }: { inboundPort: number | null },
): WantedRecord {
  const address = inboundPort === null ? `dmarc@${domain}` : dmarcReportAddress(domain);
  const value = `v=DMARC1; p=none; rua=mailto:${address}`;
  return { purpose: 'DMARC', name: `_dmarc.${domain}`, type: 'TXT', value, ttlS: 3_600 };
}

export type Publication = { zone: DnsZone; plan: readonly PlannedRecord[] };

/** Returns what would be added, or null when the account of the token has no zone for the domain. */
export async function planPublication(
  provider: DnsProvider,
  domain: string,
  wanted: readonly WantedRecord[],
): Promise<Publication | null> {
  const zone = await provider.findZone(domain);
  if (zone === null) return null;
  const plan: PlannedRecord[] = [];
  for (const record of wanted) {
    plan.push(planRecord(record, await provider.listRecords(zone, record.name)));
  }
  return { zone, plan };
}

/** Adds the records of the plan that neither exist nor are blocked. Returns their number. */
export async function addPlanned(
  provider: DnsProvider,
  { zone, plan }: Publication,
): Promise<number> {
  const missing = plan.filter(({ action }) => action === 'add');
  for (const { name, type, value, ttlS } of missing) {
    await provider.upsert(zone, { name, type, value, ttlS });
  }
  return missing.length;
}

export function noZoneSentence(provider: DnsProvider, domain: string): string {
  return `${provider.name} has no zone for ${domain} in the account of this token. Add the zone there, use the token of its account, or publish these records by hand.`;
}
