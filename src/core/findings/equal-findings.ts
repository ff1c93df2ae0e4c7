/**
 * Groups equal findings about several names, so that a report says a sentence once and lists the names. Two findings
 * are equal when their sentences differ only in the name that was checked. The command and the dashboard share this,
 * and programs get every finding.
 */
/** The parts of a finding of the doctor (doctor/finding.ts) that decide whether two are equal. */
type Finding = {
  level: string;
  /** The address, name or path that was checked, or null for the installation. */
  subject: string | null;
  found: string;
  meaning: string | null;
  remedy: string | null;
  command: string | null;
};

export type EqualFindings<One extends Finding> = {
  /** The finding whose sentences are shown. */
  first: One;
  findings: readonly One[];
  /** Names that the others are about, or all names when the sentence of `first` has none. */
  names: readonly string[];
  isNamed: boolean;
};

/** `_dmarc.acme.com` and `default._bimi.acme.com` are records of `acme.com`. */
const LABELS_OF_RECORD = /^(?:\S*\.)?_[^.]+\./;
const NAME_OR_ADDRESS = /[.:]/;

/** The groups have the order of their first findings. */
export function groupEqualFindings<One extends Finding>(
  findings: readonly One[],
): EqualFindings<One>[] {
  return [...Map.groupBy(findings, keyOf).values()].map((equal) => {
    const first = equal[0]!;
    const own = nameOf(first);
    const isNamed = own !== null && first.found.includes(own);
    const names = new Set(equal.map(nameOf).filter((name) => name !== null));
    if (isNamed) names.delete(own);
    return { first, findings: equal, names: !isNamed && names.size < 2 ? [] : [...names], isNamed };
  });
}

/** @param shownMax names beyond it are counted */
export function sentenceOfNames(
  { names, isNamed }: Pick<EqualFindings<Finding>, 'names' | 'isNamed'>,
  shownMax: number,
): string | null {
  if (names.length === 0) return null;
  const shown = names.slice(0, shownMax).join(', ');
  const left = names.length - shownMax;
  const more = left > 0 ? ` and ${left} more` : '';
  return isNamed ? `The same holds for ${shown}${more}.` : `It concerns ${shown}${more}.`;
}

function keyOf(finding: Finding): string {
  const { level, found, meaning, remedy, command } = finding;
  const name = nameOf(finding);
  const texts = [found, meaning, remedy, command].map((text) =>
    text !== null && name !== null && NAME_OR_ADDRESS.test(name)
      ? text.replaceAll(name, '\0')
      : text,
  );
  return JSON.stringify([level, ...texts]);
}

function nameOf({ subject }: Pick<Finding, 'subject'>): string | null {
  return subject === null ? null : subject.replace(LABELS_OF_RECORD, '');
}
