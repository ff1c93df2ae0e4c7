/**
 * Explains why a record is missing: it searches the names where owners often create it by mistake, and records of
 * another type.
 */
import type { ExpectedRecord } from './records.ts';
import type { DnsResult } from '../../net/dns/resolver.ts';
import { looksLikeDkimKey } from './compare-dkim.ts';
import type { RecordProblem } from './record-comparison.ts';
import { type DnsLookups, nameWithinZone, organizationOf, zonesOf } from './zone-names.ts';

export async function explainAbsence(
  expected: ExpectedRecord,
  domainName: string,
  lookups: DnsLookups,
): Promise<RecordProblem> {
  const organization = organizationOf(domainName);
  const [organizationMx, misplaced, otherType] = await Promise.all([
    lookups.mx(organization),
    findMisplaced(expected, domainName, lookups),
    findOtherType(expected, lookups),
  ]);
  if (organizationMx.kind === 'nxdomain') {
    return {
      mistake: `the domain ${organization} does not exist in DNS`,
      remedy: 'check its spelling, or register it and set its name servers',
    };
  }
  return misplaced ?? otherType ?? absent(expected);
}

function absent({ type, name }: ExpectedRecord): RecordProblem {
  return {
    mistake: `there is no ${type} record at ${name}`,
    remedy: 'add it with the value shown; a new record can take an hour to be seen',
  };
}

/** Finds the record at a wrong name that DNS panels make from the right one. */
async function findMisplaced(
  expected: ExpectedRecord,
  domainName: string,
  lookups: DnsLookups,
): Promise<RecordProblem | null> {
  const { name, type } = expected;
  const organization = organizationOf(domainName);
  const places = zonesOf(domainName).map((zone) => ({
    wrong: `${name}.${zone}`,
    remedy: `your DNS panel appended the zone name, so enter only "${nameWithinZone(name, zone)}" as its name`,
  }));
  if (organization !== domainName) {
    places.push({
      wrong: `${nameWithinZone(name, domainName)}.${organization}`,
      remedy: `the sub-domain is missing, so enter "${nameWithinZone(name, organization)}" as its name`,
    });
  }
  const isFound = await Promise.all(
    places.map(({ wrong }) => isRecordAt(expected, wrong, lookups)),
  );
  const place = places[isFound.indexOf(true)];
  if (place === undefined) return null;
  return { mistake: `the ${type} record exists at ${place.wrong}`, remedy: place.remedy };
}

/** Compares the values, too, because a wildcard matches every name. */
async function isRecordAt(
  expected: ExpectedRecord,
  name: string,
  lookups: DnsLookups,
): Promise<boolean> {
  if (expected.type === 'MX') {
    return hasRecord(await lookups.mx(name), ({ exchange }) =>
      exchange.startsWith(expected.value.toLowerCase()),
    );
  }
  return hasRecord(await lookups.txt(name), (text) =>
    expected.record === 'DKIM' ? looksLikeDkimKey(text) : /v=spf1/i.test(text),
  );
}

function hasRecord<T>(result: DnsResult<T>, test: (record: T) => boolean): boolean {
  return result.kind === 'records' && result.records.some(test);
}

async function findOtherType(
  expected: ExpectedRecord,
  lookups: DnsLookups,
): Promise<RecordProblem | null> {
  const { name, type, record } = expected;
  const [cname, a, mx] = await Promise.all([
    lookups.cname(name),
    lookups.a(name),
    lookups.mx(name),
  ]);
  if (cname.kind === 'records') {
    return {
      mistake: `there is a CNAME at ${name} (to ${cname.records.join(', ')}), which has no ${type} record`,
      remedy: `replace it with the ${type} record shown`,
    };
  }
  if (a.kind === 'records') return wrongType(expected, 'an A');
  // A return path has an MX beside its SPF. A DKIM name has none.
  if (mx.kind === 'records' && record === 'DKIM') return wrongType(expected, 'an MX');
  return null;
}

function wrongType({ name, type }: ExpectedRecord, found: string): RecordProblem {
  return {
    mistake: `there is ${found} record at ${name}, but no ${type} record`,
    remedy: `choose the type ${type} and enter the value shown`,
  };
}
