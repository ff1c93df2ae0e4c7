/** The text of mail to the operator about conditions. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ReportedCondition } from './operator-mail-store.ts';
import { composeOperatorMail } from './operator-mail-text.ts';

const RAISED: ReportedCondition = {
  subject: 'mail1.example.org',
  state: 'raised',
  message: 'The disk of the database has 412 MB left; emails are refused.',
  remedy: 'Make room on the disk.',
  since: new Date('2026-11-25T22:41:09Z'),
  at: new Date('2026-11-25T22:41:09Z'),
};
const CLEARED: ReportedCondition = {
  ...RAISED,
  state: 'cleared',
  message: 'The disk has enough free space again.',
  remedy: null,
  at: new Date('2026-11-25T23:05:00Z'),
};

const textOf = (reports: ReportedCondition[], total = reports.length) =>
  composeOperatorMail({ id: '', kind: 'disk.low', total, reports }, 'mail1.example.org');

test('a report says what happened, since when, and what to do', () => {
  const { subject, text } = textOf([RAISED]);
  assert.equal(subject, `Letterhaus: ${RAISED.message}`);
  assert.ok(
    text.startsWith(
      [
        RAISED.message,
        '  What:  disk.low, mail1.example.org',
        '  Since: 2026-11-25 22:41 UTC',
        '  To do: Make room on the disk.',
        '',
        'List open conditions: letterhaus attention',
      ].join('\n'),
    ),
    text,
  );
  assert.equal(
    textOf([CLEARED]).subject,
    'Letterhaus: Over: The disk has enough free space again.',
  );
});

test('a summary has its reports in order, and counts those that it omits', () => {
  const { subject, text } = textOf([RAISED, CLEARED], 60);
  assert.equal(subject, 'Letterhaus: 60 reports of disk.low');
  assert.match(text, /^There are 58 more reports; these are the newest 2\.\n\nThe disk of/);
  assert.match(
    text,
    /Over: The disk has enough free space again\.[^]*Until: 2026-11-25 23:05 UTC\n/,
  );
});

test('a subject is one line of bounded length for any message', () => {
  const { subject } = textOf([{ ...RAISED, message: `one\r\nBcc: all@x.test ${'é'.repeat(500)}` }]);
  assert.match(subject, /^Letterhaus: one Bcc: all@x\.test é+…$/);
  assert.ok(subject.length < 170);
});
