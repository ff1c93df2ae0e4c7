/** Shows which times a command takes, and what commands say to the first mistakes of an operator. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startService } from '../../test/support/service.ts';
import { parseTime } from './command.ts';

const service = await startService();
after(() => service[Symbol.asyncDispose]());

const NOW = '2026-11-27T18:30:00.000Z';

for (const [text, time] of [
  ['30m', '2026-11-27T18:00:00.000Z'],
  ['2d', '2026-11-25T18:30:00.000Z'],
  ['today', '2026-11-27T00:00:00.000Z'],
  ['Yesterday', '2026-11-26T00:00:00.000Z'],
  ['2026-11-21', '2026-11-21T00:00:00.000Z'],
  ['2026-11-21T08:30Z', '2026-11-21T08:30:00.000Z'],
  ['2026-11-21T08:30+02:00', '2026-11-21T06:30:00.000Z'],
] as const) {
  test(`a command takes ${text} as a time`, () => {
    assert.equal(parseTime(text, Date.parse(NOW)).toISOString(), time);
  });
}

for (const text of ['7', '21', '11/21', 'Friday', '', '2026-13-01']) {
  test(`a command refuses ${JSON.stringify(text)} as a time`, () => {
    assert.throws(() => parseTime(text, Date.parse(NOW)), /Write 30m, 6h or 2d, today/);
  });
}

test('emails are listed from a time, and before one', async () => {
  const id = await service.send({ to: 'delivered@simulator.test' });
  const listed = async (...times: string[]): Promise<string[]> => {
    const { data } = await service.cliJson('emails', 'list', ...times);
    return data.map((email: { id: string }) => email.id);
  };
  assert.deepEqual(await listed('--since', '1h'), [id]);
  assert.deepEqual(await listed('--since', '2h', '--until', '1h'), []);
  const { stdout } = await service.cli('emails', 'list', '--until', '1h');
  assert.match(stdout, /^No email matches\./);
});

for (const [words, code, says] of [
  ['emails why jo@acme.test', 1, /is no id of an email.*: letterhaus log --to jo@acme\.test\n/],
  [
    'owner reset jo@acme.test',
    1,
    /No member signs in with "jo@acme\.test"; see letterhaus members list/,
  ],
  ['members invite jo --role viewer', 2, /"jo" is not an email address: it has no @/],
] as const) {
  test(`letterhaus ${words} says what to do`, async () => {
    const failed = await service.cli(...words.split(' '));
    assert.deepEqual([failed.code, failed.stdout], [code, '']);
    assert.match(failed.stderr, says);
  });
}
