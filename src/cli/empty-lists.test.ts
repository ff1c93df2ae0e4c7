/** An empty list names what is missing, and prints a command that works as it stands. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { shellWords } from '../../test/support/shell-words.ts';
import { startService } from '../../test/support/service.ts';

const service = await startService({ args: ['--workers', '1'] });
after(() => service[Symbol.asyncDispose]());

const printed = async (...words: string[]): Promise<string> => {
  const { code, stdout, stderr } = await service.cli(...words);
  assert.equal(code, 0, stderr);
  return stdout + stderr;
};

/** Runs the command that a list recommends with --help: unknown commands and options are refused. */
async function assertAccepted(text: string): Promise<void> {
  const [, line = ''] = /:\n {2}\S*letterhaus (.+)\n$/.exec(text) ?? [];
  assert.notEqual(line, '', text);
  const { code, stderr } = await service.cli(...shellWords(line), '--help');
  assert.equal(code, 0, stderr);
}

const LISTS: [words: string, says: RegExp][] = [
  ['emails list', /^No emails have been sent yet\./],
  ['emails list --status bounced', /^No email matches\./],
  ['webhooks list', /^There is no webhook yet\./],
  ['keys list --environment live', /^There are no API keys\./],
  ['templates list', /^There is no template yet\./],
  ['suppressions list', /^No address is suppressed\./],
  ['domains list --environment live', /^There is no sending domain yet\./],
  ['inbound list', /^No message has been received\./],
  ['inbound list --kind bounce', /^No received message matches\./],
  ['queue', /^The queue is empty/],
  ['providers list', /^No provider refuses/],
  ['tls-report', /^No TLS session/],
];

for (const [words, says] of LISTS) {
  test(`letterhaus ${words} names what is missing, and what to do`, async () => {
    const text = await printed(...words.split(' '));
    assert.match(text, says);
    await assertAccepted(text);
  });
}

test('an empty list of events is reported on stderr, not among the events', async () => {
  const key = ['--key', service.testKey, '--url', service.url];
  const { stdout, stderr } = await service.cli('events', '--types', 'email.bounced', ...key);
  assert.equal(stdout, '');
  assert.match(stderr, /^No stored event matches\. To wait for new ones:/);
  await assertAccepted(stderr);
  const json = await service.cli('events', '--types', 'email.bounced', '--json', ...key);
  assert.deepEqual([json.stdout, json.stderr], ['', '']);
});

test('a webhook without deliveries says how to test it', async () => {
  const { id } = await service.cliJson(
    'webhooks',
    'add',
    'https://acme.com/hooks',
    '--environment',
    'live',
  );
  const none = await printed('webhooks', 'deliveries', id);
  assert.match(none, /^Nothing was delivered to this webhook yet\./);
  assert.ok(none.includes(`webhooks test ${id}`), none);
  const filtered = await printed('webhooks', 'deliveries', id, '--status', 'failed');
  assert.match(filtered, /^No delivery matches\./);
  await assertAccepted(filtered);
});
