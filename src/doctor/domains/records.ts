/** Checks the records that authorise this installation to send for each domain, as receivers find them. */
import type { Queryable } from '../../database/database.ts';
import { readInstallationHosts, recordSetupOf } from '../../domains/domain-check.ts';
import { requiredRecords } from '../../domains/dns/records.ts';
import { type ComparedRecord, compareRecords } from '../../domains/dns/verify.ts';
import type { StoredDomain } from '../../domains/domain-store.ts';
import type { CheckContext } from '../check-context.ts';
import { type Finding, green, red, unknown, yellow } from '../finding.ts';
import type { Check } from '../run-checks.ts';
import { forEachDomain, sentence } from './live-domains.ts';

export const DOMAIN_RECORDS: Check = {
  id: 'domain_records',
  title: 'Records of each domain',
  run: (context) =>
    forEachDomain(context, async ({ name, stored }) => {
      const { database } = context;
      if (stored !== null && database.kind === 'open') {
        return checkStored(context, database.db, stored);
      }
      if (database.kind !== 'open') {
        const found = `The keys of ${name} cannot be read: ${database.reason}`;
        return [unknown(found, { subject: name })];
      }
      return [
        red(`${name} is no live domain of this installation.`, {
          subject: name,
          meaning: 'Live mail from it is refused.',
          remedy: 'Add it, publish its records, and verify it.',
          command: `letterhaus domains add ${name}`,
        }),
      ];
    }),
};

async function checkStored(
  { config, resolver }: CheckContext,
  db: Queryable,
  domain: StoredDomain,
): Promise<Finding[]> {
  const installation = await readInstallationHosts(db, config);
  const expected = requiredRecords(recordSetupOf(domain, installation));
  const { name } = domain;
  const records = await compareRecords(expected, { name, installation, resolver });
  const findings = records.flatMap((record) => judge(record, domain));
  if (domain.isKeyUnusable) {
    findings.push(
      red(`The secret key does not decrypt the DKIM keys of ${name}.`, {
        subject: name,
        meaning: 'No mail of the domain can be signed, so it waits.',
        remedy: 'Bring back the right secret key, or make new keys (docs/backup.md).',
        command: `letterhaus domains rotate-dkim ${name}`,
      }),
    );
  }
  if (findings.length > 0) return findings;
  return [green(`${name} has its DKIM, SPF and MX records.`, name)];
}

function judge(record: ComparedRecord, { name: domain }: StoredDomain): Finding[] {
  const { record: purpose, type, name, value, priority, required, status, problem } = record;
  const subject = name;
  if (problem === null) return [];
  const [found, remedy] = [sentence(problem.mistake), sentence(problem.remedy)];
  if (status === 'dns_error') return [unknown(found, { subject, remedy })];
  // The keys beside the one that signs now are optional, and so is Ed25519.
  if (!required && status !== 'mismatch') return [];
  const text = priority === undefined ? `"${value}"` : `${priority} ${value}`;
  const command = `letterhaus domains verify ${domain}`;
  if (status === 'verified') {
    const meaning = `Some mail may fail ${purpose}.`;
    return [yellow(found, { subject, meaning, remedy, command })];
  }
  return [
    (required ? red : yellow)(found, {
      subject,
      meaning: required
        ? 'Receivers cannot authenticate the mail, and sending stops 72 hours after the record is lost.'
        : 'The second signature is not used.',
      remedy: `${remedy} The ${type} record at ${name} has to be ${text}.`,
      command,
    }),
  ];
}
