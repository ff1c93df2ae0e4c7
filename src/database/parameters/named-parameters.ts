/**
 * Gives names to the parameters of a statement. PostgreSQL numbers parameters, so a reader of a long statement has to
 * count them, and no compiler notices a value in the wrong place. With names the compiler checks every value, and
 * `valuesOf` passes the values in the order of the numbers.
 */

export type NamedParameters<Name extends string> = {
  /** `$1`, `$2` … of each name, for the text of the statement. */
  sql: Readonly<Record<Name, string>>;
  /** The values in the order of their numbers. */
  valuesOf: (values: Readonly<Record<Name, unknown>>) => unknown[];
};

/** @param passedBefore parameters of the statement that come before these */
export function namedParameters<const Name extends string>(
  names: readonly Name[],
  passedBefore = 0,
): NamedParameters<Name> {
  const numbered = names.map((name, index) => [name, `$${passedBefore + index + 1}`]);
  return {
    sql: Object.fromEntries(numbered) as Record<Name, string>,
    valuesOf: (values) => names.map((name) => values[name]),
  };
}
