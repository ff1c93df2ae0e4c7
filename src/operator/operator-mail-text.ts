/** Composes mail to the operator: what happened, since when, what to do, and with which command. */
import type { ConditionType } from '../core/operator-events.ts';
import type { PlannedMail, ReportedCondition } from './operator-mail-store.ts';

const SUBJECT_CHARACTERS_MAX = 150;

/** @param machine the host name of the installation */
export function composeOperatorMail(
  { kind, total, reports }: PlannedMail,
  machine: string,
): { subject: string; text: string } {
  const [first] = reports;
  const subject =
    total === 1 && first !== undefined
      ? `${first.state === 'cleared' ? 'Over: ' : ''}${first.message}`
      : `${total} reports of ${kind}`;
  const omitted = total - reports.length;
  const parts = [
    ...(omitted > 0
      ? [`There are ${omitted} more reports; these are the newest ${reports.length}.`]
      : []),
    ...reports.map((report) => formatReport(kind, report)),
    formatClosing(kind, machine),
  ];
  return { subject: `Letterhaus: ${shorten(subject)}`, text: `${parts.join('\n\n')}\n` };
}

function formatReport(kind: ConditionType, report: ReportedCondition): string {
  const { subject, state, message, remedy, since, at } = report;
  const isOver = state === 'cleared';
  const lines = [
    ['What', `${kind}, ${subject}`],
    ['Since', formatTime(since)],
    ...(isOver ? [['Until', formatTime(at)]] : []),
    ...(remedy === null ? [] : [['To do', remedy]]),
  ];
  const facts = lines.map(([name = '', value = '']) => `  ${`${name}:`.padEnd(7)}${value}`);
  return [`${isOver ? 'Over: ' : ''}${message}`, ...facts].join('\n');
}

function formatClosing(kind: ConditionType, machine: string): string {
  return [
    `List open conditions: letterhaus attention`,
    `The Letterhaus installation on ${machine} sent this. It mails about ${kind} at most once an hour; later reports`,
    'are in the next mail. LETTERHAUS_OPERATOR_ADDRESS is the recipient.',
  ].join('\n');
}

function formatTime(at: Date): string {
  return `${at.toISOString().slice(0, 16).replace('T', ' ')} UTC`;
}

function shorten(text: string): string {
  const characters = [...text.replace(/[\p{Cc}\s]+/gu, ' ').trim()];
  if (characters.length <= SUBJECT_CHARACTERS_MAX) return characters.join('');
  return `${characters.slice(0, SUBJECT_CHARACTERS_MAX - 1).join('')}…`;
}
