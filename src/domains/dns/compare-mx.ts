/**
 * Compares the MX records of a return path with the one that has to be there. Each typical mistake has its own
 * message.
 */
import { isIP } from 'node:net';
import type { MxRecord } from '../../net/dns/resolver.ts';
import { mismatch, type RecordComparison } from './record-comparison.ts';

/**
 * Compares the records with the expected one.
 * @param names host names of this installation; the first is the value to publish
 * @param records at least one, sorted by preference
 * @param zones the domain and its parents; a DNS panel may append any of them
 */
export function compareMx(
  names: readonly string[],
  records: readonly MxRecord[],
  zones: readonly string[],
): RecordComparison {
  const [host = ''] = names;
  const best = Math.min(...records.map(({ preference }) => preference));
  const others = records.filter(({ exchange }) => !names.includes(exchange));
  const competing = others.find(({ preference }) => preference <= best);
  if (competing === undefined) return { status: 'verified', problem: null };
  const { exchange } = competing;
  if (exchange === '.') {
    return mismatch(
      'the MX declares that this name accepts no mail (null MX)',
      `replace it with ${host}`,
    );
  }
  if (zones.some((zone) => exchange === `${host}.${zone}`)) {
    return mismatch(
      `the MX points to ${exchange}`,
      `your DNS panel appended the zone name, so end the value with a dot: "${host}."`,
    );
  }
  if (isIP(exchange) !== 0) {
    return mismatch(`the MX holds an address (${exchange})`, `replace it with the name ${host}`);
  }
  if (records.length > others.length) {
    return mismatch(
      `the MX ${exchange} has the same or a better priority than ours, so bounces would not reach this service`,
      'remove it',
    );
  }
  return mismatch(`the MX points to ${exchange} instead of ${host}`, 'replace it');
}
