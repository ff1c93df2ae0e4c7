/**
 * The log of a series: lines with a time and a WAL position before which everything committed by that time is stored.
 * The lines are in parts, because objects cannot be appended to. The last part is rewritten with each new line until it
 * is large enough. After a restart a new part begins.
 */
import type { ArchivePlace } from './archive-place.ts';

/** Size from which a new part begins, about 40 minutes of lines. It limits the bytes that each write repeats. */
const PART_BYTES = 16 * 1024;

/** Everything that was committed by `at` is in the WAL before `lsn`. */
export type Covered = { at: string; lsn: string };

export type CoveredPart = { name: string; text: string };

export const coveredFolder = (series: string): string => `${series}/covered`;

/**
 * Appends a line. The caller has stored the WAL before.
 * @param last the part that contains the line before, or null when a new part begins
 */
export async function appendCovered(
  place: ArchivePlace,
  { series, last, covered }: { series: string; last: CoveredPart | null; covered: Covered },
): Promise<CoveredPart> {
  const line = `${covered.at} ${covered.lsn}\n`;
  const isNew = last === null || last.text.length > PART_BYTES;
  const part = isNew
    ? { name: partName(series, covered), text: line }
    : { name: last.name, text: last.text + line };
  await place.put(part.name, Buffer.from(part.text));
  return part;
}

export async function readLastCovered(
  place: ArchivePlace,
  series: string,
): Promise<Covered | null> {
  const name = (await listParts(place, series)).at(-1);
  return name === undefined ? null : ((await readLines(place, name)).at(-1) ?? null);
}

export async function findCoveredSince(
  place: ArchivePlace,
  series: string,
  at: string,
): Promise<Covered | null> {
  const parts = await listParts(place, series);
  const before = parts.findLastIndex((name) => timeOf(name) <= withoutPunctuation(at));
  for (const name of parts.slice(Math.max(0, before))) {
    const found = (await readLines(place, name)).find((line) => line.at >= at);
    if (found !== undefined) return found;
  }
  return null;
}

export async function listPartsBefore(
  place: ArchivePlace,
  series: string,
  at: string,
): Promise<string[]> {
  const parts = await listParts(place, series);
  return parts.filter((_, index) => {
    const next = parts[index + 1];
    return next !== undefined && timeOf(next) <= withoutPunctuation(at);
  });
}

/** Returns `covered/000000002A000028-20261125T090003123Z.log`. The names sort by position. */
function partName(series: string, { at, lsn }: Covered): string {
  const position = lsn.split('/').map((half) => half.padStart(8, '0'));
  return `${coveredFolder(series)}/${position.join('')}-${withoutPunctuation(at)}.log`;
}

function listParts(place: ArchivePlace, series: string): Promise<string[]> {
  return place.list(`${coveredFolder(series)}/`);
}

async function readLines(place: ArchivePlace, name: string): Promise<Covered[]> {
  const text = (await place.get(name))?.toString('utf8') ?? '';
  return text.split('\n').flatMap((line) => {
    const [, at, lsn] = /^(\S+Z) ([0-9A-F]+\/[0-9A-F]+)$/.exec(line) ?? [];
    return at === undefined || lsn === undefined ? [] : [{ at, lsn }];
  });
}

function withoutPunctuation(at: string): string {
  return at.replaceAll(/[-:.]/g, '');
}

function timeOf(name: string): string {
  return /-(\w+)\.log$/.exec(name)?.[1] ?? '';
}
