/** The DMARC record of a domain as DNS has it, what receivers reported about it, and the next policy as a proposal. */
import type { Queryable } from '../../database/database.ts';
import { findDmarcRecords } from '../dns/dmarc-records.ts';
import type { DnsLookups } from '../dns/zone-names.ts';
import type { StoredDomain } from '../domain-store.ts';
import { DMARC_DAYS, dmarcProgress, type DmarcProgress, policyOf } from './dmarc-progress.ts';
import { type DmarcTotals, sumDmarcReports } from './dmarc-store.ts';

export type DmarcStatus = DmarcProgress & {
  /** Null without a record that receivers use. */
  record: string | null;
  policy: string | null;
  /** The address of the service for reports. Nothing reads them where no mail is received. */
  reportAddress: string;
  totals: DmarcTotals | null;
};

export type DmarcOptions = {
  db: Queryable;
  lookups: Pick<DnsLookups, 'txt'>;
  /** Addresses that this service sends from. */
  ownIps: readonly string[];
};

/** Reports list who sends mail as the domain, so only a project that verified exactly this domain sees them. */
export async function examineDmarc(
  { name, environment, verifiedAt }: Pick<StoredDomain, 'name' | 'environment' | 'verifiedAt'>,
  { db, lookups, ownIps }: DmarcOptions,
): Promise<DmarcStatus> {
  const reportAddress = dmarcReportAddress(name);
  const without = { record: null, policy: null, reportAddress, totals: null, proposal: null };
  if (environment === 'test' || verifiedAt === null) {
    const message = `${name} is not verified in the live environment, so its DMARC record was not examined.`;
    return { ...without, state: 'unverified', message };
  }
  const found = await findDmarcRecords(name, lookups);
  if (found?.kind === 'error') {
    const message = `DNS gave no answer about the DMARC record of ${name}: ${found.message}.`;
    return { ...without, state: 'dns_error', message };
  }
  const [text, ...others] = found?.texts ?? [];
  if (found === null || text === undefined) {
    const message = `DNS has no DMARC record of ${name} yet. Publish the TXT record "v=DMARC1; p=none; rua=mailto:${reportAddress}" at _dmarc.${name}.`;
    return { ...without, state: 'no_record', message };
  }
  const { at } = found;
  if (others.length > 0) {
    const message = `_dmarc.${at} has several DMARC records, so receivers ignore them. Keep one.`;
    return { ...without, state: 'invalid_record', message };
  }
  const policy = policyOf(text);
  if (at !== name) {
    const message = `The DMARC policy of ${at} is ${policy ?? 'not valid'}, and applies to ${name}. It concerns all mail of ${at}, so its reports are read for ${at} alone: add and verify that domain, too.`;
    return { ...without, record: text, policy, state: 'inherited', message };
  }
  const wanted = { domain: at, policy: policy ?? '', days: DMARC_DAYS };
  const totals = await sumDmarcReports(db, wanted);
  const progress = dmarcProgress({ at, text, totals, reportAddress, ownIps });
  return { ...progress, record: text, policy, reportAddress, totals };
}

/** It is in the domain, so no receiver asks for a permission to report there (RFC 9990 §3). */
export function dmarcReportAddress(name: string): string {
  return `dmarc@send.${name}`;
}
