/** DSN at an SMTP server (RFC 3461): the grammar of the parameters, and the handlers' arguments. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Dialogue } from '../../../../test/support/smtp-dialogue.ts';
import { startSmtpServer } from '../../../../test/support/smtp-server.ts';

const LONG = 'x'.repeat(101);

test('RET, ENVID, NOTIFY and ORCPT are accepted by their grammar, and others get 501', async () => {
  await using server = await startSmtpServer({
    offersDsn: true,
    limits: { errorsPerSession: 100 },
  });
  await using client = await Dialogue.open(server.port);
  await client.readReply();
  assert.match((await client.ask('EHLO client.test')) ?? '', /^250[ -]DSN$/m);
  const mail: [string, string][] = [
    ['RET=FULL', '250'],
    ['ret=hdrs envid=QQ314159', '250'],
    ['ENVID=a+2Bb+3Dc+20d', '250'],
    [`ENVID=${LONG.slice(1)}`, '250'],
    ['SIZE=100 BODY=8BITMIME SMTPUTF8 AUTH=<> RET=FULL ENVID=<x@y.test>', '250'],
    ['RET', '501 5.5.4'],
    ['RET=', '501 5.5.4'],
    ['RET=ALL', '501 5.5.4'],
    ['RET=FULL,HDRS', '501 5.5.4'],
    ['RET=FULL RET=FULL', '501 5.5.4'],
    ['RET=FULL ret=HDRS', '501 5.5.4'],
    ['ENVID', '501 5.5.4'],
    ['ENVID=', '501 5.5.4'],
    ['ENVID=a=b', '501 5.5.4'],
    ['ENVID=a+b', '501 5.5.4'],
    ['ENVID=a+2', '501 5.5.4'],
    ['ENVID=a+2b', '501 5.5.4'],
    ['ENVID=a+0D+0ASubject:', '501 5.5.4'],
    ['ENVID=a+7F', '501 5.5.4'],
    ['ENVID=a+E4', '501 5.5.4'],
    ['ENVID=ä SMTPUTF8', '501 5.5.4'],
    [`ENVID=${LONG}`, '501 5.5.4'],
    ['NOTIFY=NEVER', '555 5.5.4'],
    ['ORCPT=rfc822;a@b.test', '555 5.5.4'],
    ['BODY=BINARYMIME RET=FULL', '555 5.5.4'],
  ];
  for (const [parameters, reply] of mail) {
    const received = await client.ask(`MAIL FROM:<a@b.test> ${parameters}`);
    assert.equal(received?.slice(0, reply.length), reply, parameters);
    await client.ask('RSET');
  }
  const rcpt: [string, string][] = [
    ['NOTIFY=NEVER', '250'],
    ['notify=success,Failure,DELAY', '250'],
    ['NOTIFY=DELAY', '250'],
    ['NOTIFY=SUCCESS ORCPT=rfc822;jo+2Bnews@x.test', '250'],
    ['ORCPT=X-PHONE;+2B49', '250'],
    ['ORCPT=utf-8;j\\x{F6}rg@x.test', '250'],
    [`ORCPT=rfc822;${'x'.repeat(493)}`, '250'],
    ['NOTIFY', '501 5.5.4'],
    ['NOTIFY=', '501 5.5.4'],
    ['NOTIFY=,', '501 5.5.4'],
    ['NOTIFY=SUCCESS,', '501 5.5.4'],
    ['NOTIFY=ALWAYS', '501 5.5.4'],
    ['NOTIFY=NEVER,FAILURE', '501 5.5.4'],
    ['NOTIFY=SUCCESS,NEVER', '501 5.5.4'],
    ['NOTIFY=NEVER,NEVER', '501 5.5.4'],
    ['NOTIFY=FAILURE NOTIFY=FAILURE', '501 5.5.4'],
    ['NOTIFY=NEVER notify=SUCCESS', '501 5.5.4'],
    ['ORCPT=jo@x.test', '501 5.5.4'],
    ['ORCPT=;jo@x.test', '501 5.5.4'],
    ['ORCPT=rfc822;', '501 5.5.4'],
    ['ORCPT=rfc 822;jo@x.test', '501 5.5.4'],
    ['ORCPT=rfc@822;jo@x.test', '501 5.5.4'],
    ['ORCPT=rfc822;jo+news@x.test', '501 5.5.4'],
    ['ORCPT=rfc822;jo=x@x.test', '501 5.5.4'],
    ['ORCPT=rfc822;jo+0Ax@x.test', '501 5.5.4'],
    ['ORCPT=utf-8;jörg@x.test', '501 5.5.4'],
    ['ORCPT=rfc822;jörg@x.test', '501 5.5.4'],
    [`ORCPT=rfc822;${'x'.repeat(494)}`, '501 5.5.4'],
    ['RET=FULL', '555 5.5.4'],
    ['SIZE=100', '555 5.5.4'],
  ];
  await client.ask('MAIL FROM:<a@b.test>');
  for (const [parameters, reply] of rcpt) {
    const received = await client.ask(`RCPT TO:<jo@x.test> ${parameters}`);
    assert.equal(received?.slice(0, reply.length), reply, parameters);
  }
});

test('a message arrives with the notices that it requests, and the first of a repeated recipient counts', async () => {
  await using server = await startSmtpServer({ offersDsn: true });
  await using client = await Dialogue.greeted(server.port);
  for (const line of [
    'MAIL FROM:<a@b.test> SMTPUTF8 ENVID=QQ+2B1 RET=hdrs',
    'RCPT TO:<jo@x.test> NOTIFY=delay,success ORCPT=rfc822;old@x.test',
    'RCPT TO:<jo@x.test> NOTIFY=NEVER',
    'RCPT TO:<kim@x.test>',
    'RCPT TO:<kim@x.test> NOTIFY=NEVER',
    'RCPT TO:<lee@x.test> NOTIFY=NEVER ORCPT=utf-8;jörg@x.test',
    'DATA',
  ]) {
    await client.ask(line);
  }
  await client.ask('x\r\n.');
  const [mail] = server.taken;
  assert.deepEqual(mail?.envelope.dsn, { ret: 'HDRS', envid: 'QQ+2B1' });
  assert.deepEqual(
    [...(mail?.envelope.recipientDsn ?? [])],
    [
      ['jo@x.test', { notify: ['SUCCESS', 'DELAY'], orcpt: 'rfc822;old@x.test' }],
      ['lee@x.test', { notify: [], orcpt: 'utf-8;j\\x{F6}rg@x.test' }],
    ],
  );
});
