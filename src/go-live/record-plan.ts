/**
 * Decides which records may be added to a zone. Records of others stay. Where one is in the way, the plan names the
 * step for the operator. Pure.
 */
import { mergeSpf } from '../core/dns/spf-merge.ts';
import { type DnsRecord, isSameRecord, toZoneFile } from '../net/dns-provider/record-text.ts';

export type WantedRecord = DnsRecord & { purpose: 'DKIM' | 'SPF' | 'MX' | 'DMARC' };

/** @property problem one sentence, only for `blocked` */
export type PlannedRecord = WantedRecord & {
  action: 'present' | 'add' | 'blocked';
  problem: string | null;
};

/** @param existing all records at the name of the wanted record */
export function planRecord(wanted: WantedRecord, existing: readonly DnsRecord[]): PlannedRecord {
  if (existing.some((one) => isSameRecord(one, wanted))) {
    return { ...wanted, action: 'present', problem: null };
  }
  const problem = problemOf(wanted, existing);
  return { ...wanted, action: problem === null ? 'add' : 'blocked', problem };
}

function problemOf(wanted: WantedRecord, existing: readonly DnsRecord[]): string | null {
  const { name, type, value, purpose } = wanted;
  const alias = existing.find((one) => one.type === 'CNAME');
  if (alias !== undefined) {
    return `${name} is an alias of ${alias.value}, so it can have no ${type}. Remove the CNAME, or add the record at ${alias.value}.`;
  }
  const rivals = existing.filter((one) => one.type === type && isRival(purpose, one.value));
  const [rival] = rivals;
  if (rival === undefined) return null;
  const has = `${name} already has ${rivals.map((one) => JSON.stringify(one.value)).join(' and ')}`;
  if (purpose === 'SPF' && rivals.length === 1) {
    return `${has}, and a name may have only one SPF record. Replace it with ${JSON.stringify(mergeSpf(rival.value, value))}.`;
  }
  return `${has}. Letterhaus does not replace records that it did not write: remove it if nothing needs it, then try again.`;
}

/** Returns whether another value of this type makes the record wrong. Other TXT records are independent. */
function isRival(purpose: WantedRecord['purpose'], value: string): boolean {
  if (purpose === 'SPF') return /^v=spf1(?: |$)/i.test(value);
  if (purpose === 'DMARC') return /^v\s*=\s*DMARC1/i.test(value);
  return true;
}

/** Returns the records as lines of a zone file (RFC 1035 §5). */
export function zoneFileText(records: readonly WantedRecord[]): string {
  return records
    .map((record) => `${record.name}. ${record.ttlS} IN ${record.type} ${toZoneFile(record)}\n`)
    .join('');
}
