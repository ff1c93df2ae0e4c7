/** `letterhaus go-live` from nothing to a delivered message, with a DNS provider whose zone the DNS server answers. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { TOKEN_VARIABLES } from '../../src/net/dns-provider/providers.ts';
import { fromZoneFile, asRecordType } from '../../src/net/dns-provider/record-text.ts';
import {
  PROVIDER_TOKEN,
  startDnsProviderServer,
  type ZoneRecord,
} from '../support/dns-provider-server.ts';
import { LAB_HOST, startLabDns, startReceivers } from '../support/doctor-lab.ts';
import { temporaryFolder } from '../support/embedded.ts';
import type { FakeRecordType } from '../support/fake-dns.ts';
import { cleanEnv, LAUNCHER, letterhausHere } from '../support/letterhaus.ts';
import { startService } from '../support/service.ts';

const DOMAIN = 'acme.example';
const THEIR_SPF = {
  name: `send.${DOMAIN}`,
  type: 'TXT',
  value: '"v=spf1 include:_spf.other.example -all"',
  ttlS: 300,
};

const dns = await startLabDns();
after(() => dns[Symbol.asyncDispose]());
const { gmail, yahoo, port: mxPort } = await startReceivers();
after(() => Promise.all([gmail[Symbol.asyncDispose](), yahoo[Symbol.asyncDispose]()]));
const provider = await startDnsProviderServer('hetzner', { [DOMAIN]: [THEIR_SPF] });
after(() => provider[Symbol.asyncDispose]());
provider.onChange = (_zone, records) => publish(records);

/** The DNS server answers what the provider has. */
function publish(records: readonly ZoneRecord[]): void {
  const sets = Map.groupBy(records, ({ name, type }) => `${name} ${type}`);
  for (const [key, set] of sets) {
    const [name = '', type = ''] = key.split(' ');
    const values = set.map(({ value }) => fromZoneFile(asRecordType(type) ?? 'TXT', value));
    dns.set(name, type as FakeRecordType, values);
  }
}

const service = await startService({
  dns,
  env: {
    LETTERHAUS_HOSTNAME: LAB_HOST,
    LETTERHAUS_SOURCE_IPS: '127.0.0.1',
    LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '1',
    LETTERHAUS_MX_PORT: String(mxPort),
  },
});
after(() => service[Symbol.asyncDispose]());

const folder = temporaryFolder();
const keyFile = join(folder, 'live.key');
const zoneFile = join(folder, 'acme.zone');
const token = {
  [TOKEN_VARIABLES.hetzner]: PROVIDER_TOKEN,
  LETTERHAUS_DNS_API_URL: provider.access.baseUrl ?? '',
};
const goLive = (...args: string[]) =>
  letterhausHere(['go-live', DOMAIN, ...args], { ...service.env, ...token });

type Planned = { purpose: string; action: string; problem: string | null };
type Step = {
  step: string;
  state: string;
  message: string;
  records?: Planned[];
  journey?: { stage: string; detail: string }[];
  email_id?: string;
  proposal?: string | null;
};
type Report = { done: boolean; steps: Step[] };
async function report(...args: string[]): Promise<Report> {
  const { stdout, stderr } = await goLive('--json', ...args);
  assert.notEqual(stdout, '', stderr);
  return JSON.parse(stdout);
}
const statesOf = ({ steps }: Report) => steps.map(({ step, state }) => `${step} ${state}`);

/** Presses Ctrl-C in a run that waits for DNS. */
async function interruptWhileWaiting(): Promise<void> {
  const argv = [LAUNCHER, 'go-live', DOMAIN];
  const run = spawn(process.execPath, argv, { env: cleanEnv({ ...service.env, ...token }) });
  let progress = '';
  const ended = once(run, 'close');
  run.stderr.on('data', (chunk) => {
    progress += String(chunk);
    if (progress.includes('Waiting for DNS')) run.kill('SIGINT');
  });
  await ended;
  assert.match(progress, /^Waiting for DNS: .*You may press Ctrl-C: the next run continues\.$/m);
  assert.equal(run.signalCode ?? run.exitCode, run.signalCode === null ? 130 : 'SIGINT');
}

test('without a DNS provider the records are shown and written to a zone file, after an interruption too', async () => {
  const noToken = await letterhausHere(['go-live', DOMAIN, '--dns', 'hetzner'], service.env);
  assert.equal(noToken.code, 2);
  assert.match(noToken.stderr, /LETTERHAUS_DNS_PROVIDER: hetzner needs HCLOUD_TOKEN too\./);
  await interruptWhileWaiting();
  const { code, stdout } = await goLive('--wait', '0', '--zone-file', zoneFile);
  assert.equal(code, 1, stdout);
  assert.match(stdout, /^✓ machine: The machine may send mail\.$/m);
  assert.match(stdout, /^✓ domain: acme\.example is in the service\.$/m);
  assert.match(stdout, /^- records: Publish 5 records in the DNS of acme\.example:$/m);
  assert.match(stdout, /^! verification: DNS does not have all records of acme\.example yet\./m);
  const zone = readFileSync(zoneFile, 'utf8');
  assert.match(zone, /^send\.acme\.example\. 3600 IN MX 10 lab\.mx\.test\.$/m);
  assert.match(zone, /^_dmarc\.acme\.example\. 3600 IN TXT "v=DMARC1; p=none; rua=/m);
  assert.equal(zone.trim().split('\n').length, 5);
});

test('with a DNS provider nothing is added without --yes, and a record of others is not replaced', async () => {
  const asked = await report('--dns', 'hetzner');
  assert.equal(asked.done, false);
  assert.match(asked.steps[2]?.message ?? '', /Run the command with --yes to add them\.$/);
  assert.deepEqual(provider.changes, []);
  const { steps } = await report('--dns', 'hetzner', '--yes');
  const records = steps[2]?.records ?? [];
  const actions = records.map(({ purpose, action }) => `${purpose} ${action}`);
  assert.deepEqual(actions, ['DKIM add', 'DKIM add', 'MX add', 'SPF blocked', 'DMARC add']);
  assert.match(
    records[3]?.problem ?? '',
    /Replace it with "v=spf1 .*include:_spf\.other\.example -all"\.$/,
  );
  assert.ok(provider.records(DOMAIN).some(({ value }) => value === THEIR_SPF.value));
});

/** Runs it like in a terminal, where somebody answers the question. @returns the question, and all that was shown */
async function answer(isYes: boolean): Promise<{ asked: string; shown: string }> {
  const options = ['--dns', 'hetzner', '--wait', '0', '--key-file', keyFile];
  let asked = '';
  const confirm = async (question: string): Promise<boolean> => {
    asked = question;
    return isYes;
  };
  const env = { ...service.env, ...token };
  const { stdout, stderr } = await letterhausHere(['go-live', DOMAIN, ...options], env, {
    confirm,
  });
  return { asked, shown: stdout + stderr };
}

test('in a terminal it asks before it adds records, and adds them only after a yes', async () => {
  provider.removeRecord(DOMAIN, THEIR_SPF);
  const missing = provider.records(DOMAIN).length;
  const declined = await answer(false);
  assert.match(declined.asked, /add/i);
  assert.equal(provider.records(DOMAIN).length, missing, declined.shown);
  const accepted = await answer(true);
  assert.ok(provider.records(DOMAIN).length > missing, accepted.shown);
});

test('the next run continues: verified, a live key in a file of its own, a delivered and verified message', async () => {
  const args = ['--dns', 'hetzner', '--yes', '--key-file', keyFile, '--to', 'me@gmail.com'];
  const first = await report(...args);
  assert.deepEqual(statesOf(first), [
    'machine done',
    'domain done',
    'records done',
    'verification done',
    'key done',
    'first_message done',
    'dmarc done',
  ]);
  assert.equal(statSync(keyFile).mode & 0o777, 0o600);
  assert.match(readFileSync(keyFile, 'utf8'), /^lh_live_\S+\n$/);
  const message = first.steps[5]!;
  const stages = new Map(message.journey?.map(({ stage, detail }) => [stage, detail]));
  assert.equal(stages.get('status'), 'delivered');
  assert.match(stages.get('connected') ?? '', /^gmail\.receivers\.test \[127\.0\.2\.1\]$/);
  assert.match(stages.get('reply') ?? '', /^250 /);
  assert.equal(stages.get('authentication'), 'DKIM pass, SPF pass, DMARC pass');
  assert.equal(gmail.messages.length, 1);
  // No receiver has sent a report yet, so no stricter policy is proposed.
  assert.equal(first.steps[6]?.proposal, null);
  assert.match(
    first.steps[6]?.message ?? '',
    /policy of acme\.example is none\. Add mailto:dmarc@send/,
  );

  const changes = provider.changes.length;
  const again = await report(...args);
  assert.equal(again.done, true);
  assert.equal(again.steps[5]?.email_id, message.email_id, 'the same message is followed');
  assert.equal(gmail.messages.length, 1);
  assert.equal(provider.changes.length, changes, 'no record is written twice');
  const text = await goLive('--to', 'me@gmail.com');
  assert.equal(text.code, 0);
  assert.match(text.stdout, /\nacme\.example is live\.\n$/);
  assert.doesNotMatch(text.stdout + text.stderr + service.logs, new RegExp(PROVIDER_TOKEN));
});
