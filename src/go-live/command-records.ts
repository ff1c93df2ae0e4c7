/**
 * The step about the records of the domain: shows them, writes a zone file, and adds them at the DNS provider.
 *
 * Only records that DNS or the provider does not have are added. Repeating the step adds nothing twice.
 */
import { writeFile } from 'node:fs/promises';
import type { Domain } from '../../sdk/src/api.ts';
import { table } from '../cli/table.ts';
import { findDmarcRecords } from '../domains/dns/dmarc-records.ts';
import { createResolver, systemServers } from '../net/dns/resolver.ts';
import { DnsProviderProblem, type DnsProvider } from '../net/dns-provider/dns-provider.ts';
import { openDnsProvider } from '../net/dns-provider/open-provider.ts';
import {
  addPlanned,
  firstDmarcRecord,
  type KnownRecord,
  noZoneSentence,
  planPublication,
  recordsOf,
} from './publish-records.ts';
import { type WantedRecord, zoneFileText } from './record-plan.ts';
import { type GoLive, mayChange, type Step } from './command-step.ts';

const step = 'records';

export async function publishRecords(goLive: GoLive, domain: Domain): Promise<Step> {
  const { cli, config, options } = goLive;
  const all = [...recordsOf(domain), ...(await missingDmarc(goLive))];
  const wanted = all.map(({ record }) => record);
  const missing = all.flatMap(({ record, isInDns }) => (isInDns ? [] : [record]));
  const failed = await writeZoneFile(options.zoneFile, wanted);
  if (failed !== null) return failed;
  const data = { records: missing };
  if (missing.length === 0) {
    return { step, state: 'done', message: `DNS has every record of ${domain.name}.`, data };
  }
  const lines = recordsTable(goLive, missing);
  if (config.dnsProvider === null) {
    const message = `Publish ${countOf(missing)} in the DNS of ${domain.name}:`;
    return { step, state: 'skipped', message, lines, data };
  }
  const provider = openDnsProvider(config.dnsProvider, { world: cli.world });
  try {
    return await addRecords(goLive, provider, missing);
  } catch (error) {
    if (!(error instanceof DnsProviderProblem)) throw error;
    return { step, state: 'todo', message: error.message, lines, data };
  }
}

/** Gmail and Yahoo require a DMARC record of bulk senders. `p=none` changes nothing for mail. */
async function missingDmarc({ cli: { world }, config, name }: GoLive): Promise<KnownRecord[]> {
  const servers = config.dnsServers ?? systemServers();
  const resolver = createResolver({ servers, world, trustAuthenticatedData: config.dnsTrustAd });
  try {
    if ((await findDmarcRecords(name, resolver)) !== null) return [];
  } finally {
    resolver.close();
  }
  return [{ record: firstDmarcRecord(name, config), isInDns: false }];
}

/** @returns the step when the file cannot be written, otherwise null */
async function writeZoneFile(
  file: string | undefined,
  records: readonly WantedRecord[],
): Promise<Step | null> {
  if (file === undefined) return null;
  try {
    await writeFile(file, zoneFileText(records));
    return null;
  } catch (error) {
    const message = `The zone file cannot be written: ${(error as Error).message}.`;
    return { step, state: 'todo', message };
  }
}

async function addRecords(
  goLive: GoLive,
  provider: DnsProvider,
  missing: readonly WantedRecord[],
): Promise<Step> {
  const publication = await planPublication(provider, goLive.name, missing);
  const lines = recordsTable(goLive, missing);
  if (publication === null) {
    const message = noZoneSentence(provider, goLive.name);
    return { step, state: 'todo', message, lines, data: { records: missing } };
  }
  const { zone, plan } = publication;
  const toAdd = plan.filter(({ action }) => action === 'add');
  const blocked = plan.flatMap(({ problem }) => (problem === null ? [] : [problem]));
  const data = { records: plan };
  if (toAdd.length > 0) {
    const question = `${lines.join('\n')}\n\nAdd ${countOf(toAdd)} to the zone ${zone.name} at ${provider.name}?`;
    const may = await mayChange(goLive, question);
    if (may !== true) {
      const how = may === null ? 'Run the command with --yes to add them' : 'Publish them by hand';
      const message = `${countOf(toAdd)} of ${zone.name} were not added at ${provider.name}. ${how}.`;
      const state = may === null ? 'todo' : 'skipped';
      return { step, state, message, lines: [...lines, ...blocked], data };
    }
  }
  await addPlanned(provider, publication);
  const message = `${provider.name} has ${plan.length - blocked.length} of ${countOf(plan)} of ${goLive.name}; ${toAdd.length} were added now.`;
  return { step, state: blocked.length === 0 ? 'done' : 'todo', message, lines: blocked, data };
}

function recordsTable({ cli }: GoLive, records: readonly WantedRecord[]): string[] {
  const rows = records.map(({ purpose, type, name, value }) => [purpose, type, name, value]);
  // A value that is cut cannot be copied.
  const text = table(
    { program: cli.program },
    { columns: ['FOR', 'TYPE', 'NAME', 'VALUE'], rows, none: '' },
  );
  return text.split('\n');
}

function countOf({ length }: readonly unknown[]): string {
  return length === 1 ? '1 record' : `${length} records`;
}
