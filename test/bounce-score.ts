/**
 * How well reports are read, against labels made by others: `npm run bounce-score -- <folder>`.
 * The folder has messages and labels.json (file → its recipients with `recipient`, `reason`,
 * `hard`, `feedbacktype`); it is not part of the repository.
 *
 * `suspend` and `filtered` count for neither side: whether these are hard is a matter of opinion.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  readReport,
  type Report,
  type ReportedRecipient,
} from '../src/mail/reports/read-report.ts';

type Label = { recipient: string; reason: string; hard: 0 | 1; feedbacktype: string };

const UNDECIDED = new Set(['suspend', 'filtered']);

const [folder, onlyHalf] = process.argv.slice(2);
if (folder === undefined) {
  process.stderr.write('usage: npm run bounce-score -- <folder with messages and labels.json>\n');
  process.exit(2);
}
const labels = JSON.parse(readFileSync(join(folder, 'labels.json'), 'utf8')) as Record<
  string,
  Label[]
>;
const files = Object.keys(labels).toSorted();
const chosen = files.filter(
  (_, index) => onlyHalf === undefined || (index % 2 === 0) === (onlyHalf === 'even'),
);

const score = {
  recipients: count(),
  hard: count(),
  hardBySuppress: count(),
  complaints: count(),
  suppressed: count(),
};
const misses: string[] = [];

for (const file of chosen) {
  const report = readReport(readFileSync(join(folder, file)));
  for (const label of labels[file] ?? []) judge(file, label, report);
}

function judge(file: string, label: Label, report: Report): void {
  if (label.feedbacktype !== '' && label.feedbacktype !== 'auth-failure') {
    note(
      score.complaints,
      report.kind === 'complaint',
      `${file}: complaint read as ${report.kind}`,
    );
  }
  const ours = recipientOf(label, report);
  const named = report.recipients.map(({ recipient }) => recipient).join(', ');
  note(score.recipients, isSame(ours, label), `${file}: ${label.recipient}, read "${named}"`);
  if (label.feedbacktype !== '' || UNDECIDED.has(label.reason)) return;
  const classification = ours?.classification;
  const summary = `${file}: ${label.reason}, read as ${ours?.status} ${ours?.code} ${classification?.category}: ${ours?.diagnostic?.slice(0, 150)}`;
  const isHard = classification?.permanent === true && classification.category === 'mailbox';
  note(score.hard, isHard === (label.hard === 1), `${isHard ? 'hard' : 'not hard'}: ${summary}`);
  const suppresses = classification?.suppress === true;
  note(score.hardBySuppress, suppresses === (label.hard === 1), '');
  note(score.suppressed, !suppresses || label.hard === 1, `suppressed: ${summary}`);
}

function isSame(ours: ReportedRecipient | undefined, { recipient }: Label): boolean {
  return ours?.recipient?.toLowerCase() === recipient.toLowerCase();
}

/** The one of that name; where names differ, the only one. */
function recipientOf(label: Label, { recipients }: Report): ReportedRecipient | undefined {
  return recipients.find((one) => isSame(one, label)) ?? recipients[0];
}

function count(): { right: number; all: number } {
  return { right: 0, all: 0 };
}

function note(counted: { right: number; all: number }, isRight: boolean, miss: string): void {
  counted.all += 1;
  if (isRight) counted.right += 1;
  else if (miss !== '') misses.push(miss);
}

const percent = ({ right, all }: { right: number; all: number }) =>
  `${all === 0 ? '-' : ((100 * right) / all).toFixed(1)} % (${right} of ${all})`;

process.stdout.write(
  `${misses.join('\n')}\n
right recipient                     ${percent(score.recipients)}
hard or not (permanent, mailbox)    ${percent(score.hard)}
hard or not (suppress)              ${percent(score.hardBySuppress)}
complaints recognised               ${percent(score.complaints)}
not suppressed unless hard          ${percent(score.suppressed)}
`,
);
