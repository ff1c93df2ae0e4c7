/** Line diff of two texts. */
import { diffArrays } from 'diff';

export type DiffLine = { kind: 'same' | 'added' | 'removed' | 'skipped'; text: string };

/** Unchanged lines that are shown around a change. */
const AROUND = 3;
/** Lines that are removed or added; beyond, the whole text counts as changed. */
const EDITS_MAX = 1_000;

/** @returns [] when they are the same */
export function diffLines(before: string, after: string): DiffLine[] {
  if (before === after) return [];
  const [old, now] = [linesOf(before), linesOf(after)];
  const parts = diffArrays(old, now, { maxEditLength: EDITS_MAX }) ?? [
    { value: old, removed: true, added: false },
    { value: now, removed: false, added: true },
  ];
  return withoutDistantLines(
    parts.flatMap(({ value, added, removed }) => {
      const kind = added ? 'added' : removed ? 'removed' : 'same';
      return value.map((text): DiffLine => ({ kind, text }));
    }),
  );
}

function linesOf(text: string): string[] {
  return text === '' ? [] : text.split('\n');
}

function withoutDistantLines(lines: readonly DiffLine[]): DiffLine[] {
  const isNear = lines.map((_, index) =>
    lines
      .slice(Math.max(0, index - AROUND), index + AROUND + 1)
      .some(({ kind }) => kind !== 'same'),
  );
  return lines.flatMap((line, index) => {
    if (isNear[index]) return [line];
    return index === 0 || isNear[index - 1] ? [{ kind: 'skipped' as const, text: '…' }] : [];
  });
}
