/** The log of a busy service has every id, and never an address or a secret. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startJourney } from '../support/journey.ts';
import { fieldNames, type LogLine, logLines } from '../support/log-lines.ts';
import { deliverReport, statusReport } from '../support/reports.ts';
import { Browser } from '../support/browser.ts';
import { openLoggedIn, submit, SUBMISSION_ENV } from '../support/submission.ts';
import { eventually, waitFor } from '../support/wait.ts';

const PASSWORD = 'pass-word-of-nobody';
const SUBJECT = 'S3CRET-subject';
const BODY = 'S3CRET-body';
const REPLY = '550 5.1.1 <jo.private@bouncing.test> has no mailbox here';

const journey = await startJourney({ ...SUBMISSION_ENV, LETTERHAUS_INBOUND_PORT: '0' });
after(() => journey[Symbol.asyncDispose]());
const { service } = journey;
const draft = { subject: SUBJECT, html: BODY };

const lines = (): LogLine[] => logLines(service);

async function attemptOf(emailId: string): Promise<LogLine> {
  const find = () => lines().find(({ msg, email_id }) => msg === 'attempt' && email_id === emailId);
  return waitFor(find, { what: 'the line of an attempt' });
}

test('the line of an attempt says what the server replied, which one, why, and how long it took', async () => {
  const mx = await journey.mailServer('bouncing.test', { phases: { rcpt: { reply: REPLY } } });
  const id = await journey.send({ to: 'jo.private@bouncing.test', ...draft });
  const {
    time,
    level,
    duration_ms: durationMs,
    project_id: project,
    ...line
  } = await attemptOf(id);
  assert.deepEqual(line, {
    msg: 'attempt',
    email_id: id,
    environment: 'live',
    position: 0,
    attempt: 1,
    status: 'bounced',
    provider: mx.name,
    code: 550,
    enhanced_code: '5.1.1',
    category: 'mailbox',
    blame: 'recipient',
    mx: mx.name,
    ip: mx.address,
    recipient_domain: 'bouncing.test',
  });
  assert.equal(level, 'info');
  assert.ok(Number.isInteger(durationMs) && durationMs >= 0);
  assert.match(project, /^[0-9a-f-]{36}$/);
  assert.ok(Date.parse(time) > 0);
  await journey.mailServer('good.test');
  const delivered = await attemptOf(await journey.send({ to: 'jo.private@good.test', ...draft }));
  assert.deepEqual([delivered['status'], delivered['code']], ['delivered', 250]);
  assert.ok(!('category' in delivered) && !('blame' in delivered), 'nothing is to blame');
});

test('lines of requests, submissions and received reports have the address of the client', async () => {
  const { headers } = await journey.request('GET', '/v1/emails');
  const id = headers.get('x-request-id');
  const isRequest = (line: LogLine) => line.msg === 'request' && line['request_id'] === id;
  const request = await waitFor(() => lines().find(isRequest), { what: 'the line of a request' });
  assert.equal(request['client'], '127.0.0.1');
  assert.equal(typeof request['duration_ms'], 'number');

  const { submission_ports: [port = 0] = [], inbound_port: inbound = 0 } = service.readyLine;
  await using app = await openLoggedIn({ port, key: await journey.key() });
  const message = ['From: hello@acme.example', `Subject: ${SUBJECT}`, '', BODY];
  await submit(app, { to: ['jo.private@good.test'], lines: message });
  const submission = await waitFor(() => lines().find(({ msg }) => msg === 'submission'), {
    what: 'the line of a submission',
  });
  assert.deepEqual(
    [submission['client'], submission['code'], submission['enhanced_code']],
    ['127.0.0.1', 250, '2.0.0'],
  );
  const mx = await journey.mailServer('later.test');
  const emailId = await journey.send({ to: 'jo.private@later.test', ...draft });
  await attemptOf(emailId);
  const to = mx.messages[0]?.envelopeFrom ?? '';
  const report = { to, message: statusReport({ recipient: 'jo.private@later.test' }) };
  assert.match(await deliverReport(inbound, report), /^250 /);
  const received = await waitFor(() => lines().find(({ msg }) => msg === 'inbound'), {
    what: 'the line of a report',
  });
  assert.deepEqual([received['client'], received['code']], ['127.0.0.1', 250]);
  assert.deepEqual(received['email_ids'], [emailId]);
});

test('no field of a busy service is spelled in camel case', async () => {
  const guess = { email: 'nobody@acme.example', password: PASSWORD };
  await new Browser(service).post('/v1/session', guess);
  await service.request('GET', '/v1/emails', { key: `lh_live_${PASSWORD}` });
  await journey.request('POST', '/v1/emails', { to: 'jo.private@good.test', subject: SUBJECT });
  await service.request('GET', '/no/such/path', { key: null });
  const isThere = () => lines().some(({ route, status }) => route === null && status === 404);
  await waitFor(isThere, { what: 'the last line' });
  await eventually(() => {
    const kinds = new Set(lines().map(({ msg }) => msg));
    for (const kind of ['request', 'attempt', 'webhook', 'submission', 'inbound']) {
      assert.ok(kinds.has(kind), `there is a line ${kind}`);
    }
  });
  const odd = fieldNames(lines()).filter((name) => !/^[a-z][a-z0-9]*(?:_[a-z0-9]+)*$/.test(name));
  assert.deepEqual([...new Set(odd)], []);
});

test('the log never has content, keys, passwords or the local part of an address', async () => {
  const secrets = [SUBJECT, BODY, PASSWORD, 'jo.private', 'hello@', await journey.key()];
  for (const secret of [...secrets, service.testKey]) {
    assert.ok(!service.logs.includes(secret), secret);
  }
});

test('the operator may have whole addresses with replies in the log, or nothing of recipients', async () => {
  const simulated = async (how: string): Promise<LogLine> => {
    service.env['LETTERHAUS_LOG_RECIPIENTS'] = how;
    await service.restart();
    return attemptOf(await service.send({ to: `bounced+${how}@simulator.test` }));
  };
  const none = await simulated('none');
  assert.equal(none['recipient_domain'], undefined);
  const full = await simulated('full');
  assert.equal(full['recipient'], 'bounced+full@simulator.test');
  assert.match(full['reply'], /\w/);
});
