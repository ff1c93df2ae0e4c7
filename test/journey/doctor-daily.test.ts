/** The doctor of a running service: runs after the start, daily and on request, and its reports to the operator. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { memberOf, ownerOf } from '../support/browser.ts';
import { LAB_HOST, startLabDns, startReceivers } from '../support/doctor-lab.ts';
import { logLines } from '../support/log-lines.ts';
import { startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

const dns = await startLabDns();
after(() => dns[Symbol.asyncDispose]());
const { gmail, yahoo, port: mxPort } = await startReceivers();
after(() => Promise.all([gmail[Symbol.asyncDispose](), yahoo[Symbol.asyncDispose]()]));
const service = await startService({
  dns,
  env: {
    LETTERHAUS_DOCTOR: 'daily',
    LETTERHAUS_HOSTNAME: LAB_HOST,
    LETTERHAUS_SOURCE_IPS: '127.0.0.1',
    LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '1',
    LETTERHAUS_MX_PORT: String(mxPort),
  },
});
after(() => service[Symbol.asyncDispose]());
const owner = await ownerOf(service);

type Report = { finished_at: Date; red: number; findings: { check: string; level: string }[] };

/** Waits for a run that ended later. */
async function nextReport(afterMs = 0): Promise<Report> {
  const read = async () => {
    const [row] = await service.sql(
      'select finished_at, red, findings from doctor_reports where finished_at is not null',
    );
    return row !== undefined && row.finished_at.getTime() > afterMs ? (row as Report) : null;
  };
  return waitFor(read, { what: 'a report of the doctor', timeoutMs: 120_000 });
}

const doctorLines = () => logLines(service).filter(({ msg }) => msg.startsWith('doctor: '));

test('an installation is first checked when its first domain is verified', async () => {
  assert.deepEqual(await service.sql('select from doctor_reports where begun_at is not null'), []);
  await service.addLiveDomain('acme.example');
  const { findings } = await nextReport();
  const port25 = findings.find(({ check }) => check === 'outgoing_port_25');
  assert.equal(port25?.level, 'green');
  await service.counted(/^letterhaus_doctor_checks\{level="green"\} [1-9]/m);
  assert.notEqual(gmail.sessions.length + yahoo.sessions.length, 0);
});

test('the command does not connect again to receivers that have just answered the service', async () => {
  const count = () => gmail.connections + yahoo.connections;
  const before = count();
  const { findings } = await service.cliJson('doctor', '--only', 'outgoing_port_25');
  assert.equal(findings[0].level, 'green');
  assert.match(findings[0].found, / ago; `letterhaus doctor --fresh` tries again\.$/);
  assert.equal(count(), before);
  await service.cliJson('doctor', '--only', 'outgoing_port_25', '--fresh');
  assert.equal(count(), before + 2);
});

test('a start logs the verdict, the worst finding and where to read more; the finding is a condition', async () => {
  await Promise.all([gmail.stop(), yahoo.stop()]);
  const { finished_at: before } = await nextReport();
  await service.sql(`update doctor_reports set begun_at = begun_at - interval '1 day',
                            finished_at = finished_at - interval '1 day'`);
  await service.restart();
  await nextReport(before.getTime());
  const lines = await waitFor(() => (doctorLines().length >= 3 ? doctorLines() : null), {
    what: 'three lines of the doctor',
  });
  assert.match(lines[0]!.msg, /^doctor: [1-9]\d* red, \d+ yellow, \d+ unknown; \d+ of \d+ checks/);
  assert.match(lines[1]!.msg, /^doctor: the worst is outgoing_port_25: /);
  assert.equal(lines[1]!.level, 'warn');
  assert.match(lines[2]!.msg, /`letterhaus doctor`/);
  const { stdout } = await waitFor(
    async () => {
      const attention = await service.cli('attention');
      return attention.stdout.includes('outgoing_port_25') ? attention : null;
    },
    { what: 'the condition' },
  );
  assert.match(stdout, /doctor\.red/);
});

test('a service that restarts soon does not connect to the receivers again', async () => {
  await service.restart();
  const { finished_at: before } = await nextReport();
  await waitFor(() => doctorLines().length >= 3, { what: 'three lines of the doctor' });
  assert.deepEqual((await nextReport()).finished_at, before);
});

test('an owner sees the reports and asks for a run, once a minute; nobody else may', async () => {
  const read = async () => (await owner.get('/v1/operator/doctor')).body.nodes[0];
  const { checks, findings, running, finished_at: before } = await read();
  assert.equal(running, null);
  assert.equal(checks.red > 0, true);
  const port25 = findings.find((one: { check: string }) => one.check === 'outgoing_port_25');
  assert.equal(port25.level, 'red');
  assert.match(port25.remedy, /^Ask the hosting company/);
  assert.equal(port25.docs, 'docs/doctor.md#outgoing_port_25');

  await service.sql(
    `update doctor_reports set begun_at = now() - interval '1 second', finished_at = now()`,
  );
  const soon = await owner.post('/v1/operator/doctor', {});
  assert.equal(soon.status, 429, soon.text);
  assert.equal(soon.headers.get('retry-after'), '60');
  assert.match(soon.body.error.message, /ran less than 60 seconds ago/);
  await service.sql(`update doctor_reports set begun_at = begun_at - interval '1 hour',
                            finished_at = finished_at - interval '1 hour'`);
  const asked = await owner.post('/v1/operator/doctor', {});
  assert.equal(asked.status, 202, asked.text);
  assert.equal(asked.body.nodes[0].is_requested, true);
  const done = await waitFor(
    async () => {
      const node = await read();
      return node.is_requested || node.running !== null ? null : node;
    },
    { what: 'the run', timeoutMs: 120_000 },
  );
  assert.notEqual(done.finished_at, before);

  const admin = await memberOf(service, owner, 'admin');
  const key = await service.cliJson(
    'keys',
    'create',
    '--project',
    'operator',
    '--environment',
    'live',
  );
  for (const method of ['GET', 'POST']) {
    const refusals = [
      await admin.request(method, '/v1/operator/doctor'),
      await service.request(method, '/v1/operator/doctor'),
      await service.request(method, '/v1/operator/doctor', { key: key.key }),
    ];
    for (const { status, text } of refusals) assert.equal(status, 403, text);
  }
});

test('a stop in the middle of a run ends it, and the next start begins another one', async () => {
  dns.setFailure('*', 'timeout');
  await service.sql('update doctor_reports set requested_at = now()');
  const running = async () => {
    const [row] = await service.sql(
      'select begun_at, run_id from doctor_reports where begun_at > finished_at',
    );
    return row ?? null;
  };
  const { run_id: interrupted } = await waitFor(running, { what: 'a run' });
  await service.stop();
  await service.sql(`update doctor_reports set begun_at = begun_at - interval '11 minutes',
                            finished_at = finished_at - interval '1 hour'`);
  await service.restart();
  const again = async () => {
    const row = await running();
    return row !== null && row.run_id !== interrupted ? row : null;
  };
  await waitFor(again, { what: 'another run' });
});
