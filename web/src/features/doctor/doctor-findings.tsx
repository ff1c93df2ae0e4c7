/** Findings of the doctor by level, the worst first. Green findings are folded. The verdict above counts checks. */
import { CircleCheck, CircleQuestionMark, CircleX, TriangleAlert } from 'lucide-react';
import type { ReactNode } from 'react';
import type { DoctorFinding } from '../../../../sdk/src/api.ts';
import {
  groupEqualFindings,
  sentenceOfNames,
} from '../../../../src/core/findings/equal-findings.ts';
import { Card } from '../../ui/card.tsx';
import { Code } from '../../ui/states.tsx';

type Level = DoctorFinding['level'];
/** `names`: the sentence about other names, or null. */
type Entry = DoctorFinding & { names: string | null };

const LEVELS = [
  ['red', 'Stops or loses mail'],
  ['yellow', 'Hurts delivery, or soon will'],
  ['unknown', 'No result'],
] as const satisfies readonly (readonly [Level, string])[];

const ICONS = {
  red: [CircleX, 'text-bad'],
  yellow: [TriangleAlert, 'text-wait'],
  unknown: [CircleQuestionMark, 'text-muted'],
  green: [CircleCheck, 'text-good'],
} as const;

export function Findings({ findings }: { findings: readonly DoctorFinding[] }): ReactNode {
  const of = (level: Level) => findings.filter((finding) => finding.level === level);
  const right = of('green');
  return (
    <>
      {LEVELS.map(([level, title]) => (
        <LevelSection key={level} title={title} findings={of(level)} />
      ))}
      {right.length > 0 && (
        <details className="rounded-card border border-line bg-surface px-4 py-3">
          <summary className="font-semibold">No problems ({right.length})</summary>
          <ul className="mt-3 max-w-2xl space-y-2 text-sm">
            {right.map((finding) => (
              <li key={keyOf(finding)}>
                <Headline finding={finding} />
              </li>
            ))}
          </ul>
        </details>
      )}
    </>
  );
}

function LevelSection(props: { title: string; findings: readonly DoctorFinding[] }): ReactNode {
  const { title, findings } = props;
  if (findings.length === 0) return null;
  const entries = withoutRepeats(findings);
  return (
    <Card title={title}>
      <ul className="max-w-3xl space-y-5">
        {entries.map((finding) => (
          <li key={keyOf(finding)}>
            <Headline finding={finding} />
            <div className="mt-1 space-y-1 pl-6">
              {finding.names !== null && <p className="break-words">{finding.names}</p>}
              {finding.meaning !== null && (
                <p className="text-muted">
                  <WithCode text={finding.meaning} />
                </p>
              )}
              {finding.remedy !== null && (
                <p>
                  <WithCode text={finding.remedy} />
                </p>
              )}
              {finding.command !== null && <Code text={finding.command} what="command" />}
            </div>
          </li>
        ))}
      </ul>
    </Card>
  );
}

/** Equal findings share one entry, with the names of all domains and the titles of all checks. */
function withoutRepeats(findings: readonly DoctorFinding[]): Entry[] {
  return groupEqualFindings(findings).map((equal) => ({
    ...equal.first,
    title: [...new Set(equal.findings.map(({ title }) => title))].join(', '),
    names: sentenceOfNames(equal, Infinity),
  }));
}

function Headline({ finding: { level, title, found } }: { finding: DoctorFinding }): ReactNode {
  const [Icon, colour] = ICONS[level];
  return (
    <div className="flex gap-2">
      <Icon size={16} aria-label={level} className={`mt-0.5 shrink-0 ${colour}`} />
      <p className="min-w-0 break-words">
        <span className="font-medium">{title}.</span> <WithCode text={found} />
      </p>
    </div>
  );
}

/** Names in backticks, as the command line prints them, are set as code, and names of documents are links. */
function WithCode({ text }: { text: string }): ReactNode {
  return text
    .split('`')
    .map((part, index) =>
      index % 2 === 0 ? <WithLinks key={index} text={part} /> : <code key={index}>{part}</code>,
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
