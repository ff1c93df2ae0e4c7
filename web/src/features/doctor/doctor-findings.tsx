/**
 * Findings of the doctor by level, the worst first. Checks without a result or without a problem are folded, unless
 * nothing is worse. Their counts are of checks, as in the verdict above.
 */
import {
  ChevronDown,
  CircleCheck,
  CircleQuestionMark,
  CircleX,
  TriangleAlert,
  Wrench,
} from 'lucide-react';
import type { ReactNode } from 'react';
import type { Doctor, DoctorFinding } from '../../../../sdk/src/api.ts';
import {
  groupEqualFindings,
  sentenceOfNames,
} from '../../../../src/core/findings/equal-findings.ts';
import { Card } from '../../ui/card.tsx';
import { Code } from '../../ui/states.tsx';

type Level = DoctorFinding['level'];
/** `names`: sentences about other names and checks. */
type Entry = DoctorFinding & { names: readonly string[] };

const PROBLEMS = [
  ['red', 'Stops or loses mail'],
  ['yellow', 'Hurts delivery, or soon will'],
] as const satisfies readonly (readonly [Level, string])[];

const ICONS = {
  red: [CircleX, 'text-bad'],
  yellow: [TriangleAlert, 'text-wait'],
  unknown: [CircleQuestionMark, 'text-muted'],
  green: [CircleCheck, 'text-good'],
} as const;

type Checks = Doctor['nodes'][number]['checks'];

export function Findings(props: { findings: readonly DoctorFinding[]; checks: Checks }): ReactNode {
  const { findings, checks } = props;
  const of = (level: Level) => findings.filter((finding) => finding.level === level);
  const isProblem = of('red').length + of('yellow').length > 0;
  return (
    <>
      {PROBLEMS.map(([level, title]) => (
        <Problems key={level} title={title} findings={of(level)} />
      ))}
      <Folded
        level="unknown"
        title="No result"
        count={checks.unknown}
        findings={of('unknown')}
        isOpen={!isProblem}
      />
      <Folded
        level="green"
        title="No problems"
        count={checks.green}
        findings={of('green')}
        isOpen={false}
      />
    </>
  );
}

function Problems(props: { title: string; findings: readonly DoctorFinding[] }): ReactNode {
  const { title, findings } = props;
  if (findings.length === 0) return null;
  return (
    <Card title={title}>
      <div className="-m-4">
        <Entries findings={findings} />
      </div>
    </Card>
  );
}

function Folded(props: {
  level: Level;
  title: string;
  /** Checks of this level. Equal findings are one entry. */
  count: number;
  findings: readonly DoctorFinding[];
  isOpen: boolean;
}): ReactNode {
  const { level, title, count, findings, isOpen } = props;
  const [Icon, colour] = ICONS[level];
  if (findings.length === 0) return null;
  return (
    <details
      open={isOpen}
      className="group overflow-hidden rounded-card border border-line bg-surface [--page-x:1rem]"
    >
      <summary className="own-chevron flex min-h-12 items-center gap-2 px-(--page-x) py-2.5 hover:bg-hover">
        <Icon size={16} aria-hidden className={`shrink-0 ${colour}`} />
        <h2 className="font-semibold">{title}</h2>
        <span className="grow text-sm text-muted tabular-nums">
          {count === 1 ? '1 check' : `${count.toLocaleString()} checks`}
        </span>
        <ChevronDown
          size={16}
          aria-hidden
          className="shrink-0 text-muted transition-transform group-open:rotate-180"
        />
      </summary>
      <div className="border-t border-line">
        <Entries findings={findings} />
      </div>
    </details>
  );
}

function Entries({ findings }: { findings: readonly DoctorFinding[] }): ReactNode {
  return (
    <ul className="text-sm">
      {withoutRepeats(findings).map((finding) => (
        <li
          key={keyOf(finding)}
          className="grid gap-x-6 gap-y-1 border-line px-(--page-x) py-3.5 not-first:border-t lg:grid-cols-[15rem_minmax(0,1fr)]"
        >
          <Title finding={finding} />
          <div className="min-w-0 max-w-[76ch] space-y-1 text-pretty max-lg:pl-6">
            <p className="break-words">
              <WithCode text={finding.found} />
            </p>
            {finding.names.map((sentence) => (
              <p key={sentence} className="break-words text-muted">
                {sentence}
              </p>
            ))}
            {finding.meaning !== null && (
              <p className="text-muted">
                <WithCode text={finding.meaning} />
              </p>
            )}
            {finding.remedy !== null && <Remedy text={finding.remedy} />}
            {finding.command !== null && (
              <div className="pt-1.5">
                <Code text={finding.command} what="command" />
              </div>
            )}
          </div>
        </li>
      ))}
    </ul>
  );
}

function Title({ finding: { level, title } }: { finding: DoctorFinding }): ReactNode {
  const [Icon, colour] = ICONS[level];
  return (
    <h3 className="flex min-w-0 gap-2 font-medium break-words">
      <Icon size={16} aria-label={level} className={`mt-px shrink-0 ${colour}`} />
      <span className="min-w-0">{title}</span>
    </h3>
  );
}

function Remedy({ text }: { text: string }): ReactNode {
  return (
    <p className="flex gap-2 pt-0.5">
      <Wrench size={14} aria-label="What to do" className="mt-0.75 shrink-0 text-accent" />
      <span className="min-w-0 break-words">
        <WithCode text={text} />
      </span>
    </p>
  );
}

/** Equal findings share one entry, with the names of all domains and the titles of the other checks. */
function withoutRepeats(findings: readonly DoctorFinding[]): Entry[] {
  return groupEqualFindings(findings).map((equal) => {
    const [title = '', ...others] = new Set(equal.findings.map((one) => one.title));
    const alsoFound = others.length === 0 ? null : `Also found by: ${others.join(', ')}.`;
    const names = [sentenceOfNames(equal, Infinity), alsoFound].filter((one) => one !== null);
    return { ...equal.first, title, names };
  });
}

/** Names in backticks, as the command line prints them, and variables. */
const CODE = /`([^`]*)`|(\bLETTERHAUS_[A-Z0-9_]+(?:=\w+)?)/;

/** Sets them as code, and names of documents as links. */
function WithCode({ text }: { text: string }): ReactNode {
  // A part has one of the two groups, and the other one is undefined.
  return text.split(CODE).map((part, index) =>
    part === undefined ? null : index % 3 === 0 ? (
      <WithLinks key={index} text={part} />
    ) : (
      <code key={index} className="font-mono break-words">
        {part}
      </code>
    ),
  );
}

/** "docs/backup.md" leads to the page of the handbook on this service. */
function WithLinks({ text }: { text: string }): ReactNode {
  return text.split(/docs\/([\w-]+)\.md/).map((part, index) =>
    index % 2 === 0 ? (
      part
    ) : (
      <a key={index} href={`/docs/${part}`} target="_blank" rel="noreferrer" className="link">
        handbook: {part.replaceAll('-', ' ')}
      </a>
    ),
  );
}

function keyOf({ check, subject, found }: DoctorFinding): string {
  return `${check} ${subject} ${found}`;
}
