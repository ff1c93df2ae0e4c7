/** Shows the differences between two contents of a template, part by part. */
import type { ReactNode } from 'react';
import type { Template } from '../../../../sdk/src/api.ts';
import { Differences, differencesOf, type Fields } from '../../ui/shared-change.tsx';
import type { Content } from './draft.ts';
import { type DiffLine, diffLines } from './line-diff.ts';

const PARTS = [
  ['Subject', ({ subject }) => subject],
  ['HTML', ({ html }) => html ?? ''],
  ['Text', ({ text }) => text ?? ''],
  ['Variables', ({ variables }) => variables.map((one) => JSON.stringify(one)).join('\n')],
] as const satisfies readonly (readonly [string, (content: Content) => string])[];

function changesOf(before: Content | null, after: Content) {
  return PARTS.map(([name, read]) => ({
    name,
    lines: diffLines(before === null ? '' : read(before), read(after)),
  })).filter(({ lines }) => lines.length > 0);
}

export function hasChanges(before: Content, after: Content): boolean {
  return changesOf(before, after).length > 0;
}

/** @param before null: all of `after` is new */
export function ContentChanges(props: { before: Content | null; after: Content }): ReactNode {
  return changesOf(props.before, props.after).map(({ name, lines }) => (
    <section key={name} aria-label={name}>
      <h2 className="mb-1 font-medium">{name}</h2>
      <Lines lines={lines} name={name} />
    </section>
  ));
}

const FIELDS: Fields<Template> = {
  name: 'Name',
  alias: 'Alias',
  latest_version: 'Latest version',
  published_version: 'Published version',
};

/** All that somebody else has changed in a template. */
export function TemplateChanges(props: { before: Template; after: Template }): ReactNode {
  const { before, after } = props;
  return (
    <>
      <Differences
        label="What has changed"
        titles={['Before', 'Stored now']}
        rows={differencesOf(FIELDS, before, after)}
      />
      <ContentChanges before={before} after={after} />
    </>
  );
}

const LOOKS: Record<DiffLine['kind'], [sign: string, look: string]> = {
  added: ['+', 'bg-good-tint text-good'],
  removed: ['-', 'bg-bad-tint text-bad'],
  same: [' ', ''],
  skipped: [' ', 'text-muted'],
};

function Lines({ lines, name }: { lines: readonly DiffLine[]; name: string }): ReactNode {
  return (
    <pre
      tabIndex={0}
      aria-label={`Changes of ${name}`}
      className="overflow-x-auto rounded-lg border border-line bg-surface font-mono text-xs leading-relaxed"
    >
      <span className="block w-max min-w-full py-px">
        {lines.map(({ kind, text }, index) => (
          <span key={index} className={`block px-3 py-px ${LOOKS[kind][1]}`}>
            {`${LOOKS[kind][0]} ${text}`}
          </span>
        ))}
      </span>
    </pre>
  );
}
