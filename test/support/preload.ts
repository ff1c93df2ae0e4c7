/**
 * Faults that cannot be had from outside (a full disk, a worker that breaks as it starts): code that
 * runs before the program of one kind of process of the service.
 */

/**
 * @param program the end of the name of the file that the process starts with; `.ts` is both
 * @returns environment for the service
 */
export function preload(
  program: 'main.ts' | 'worker.ts' | '.ts',
  code: string,
): { NODE_OPTIONS: string } {
  const source = `if (process.argv[1]?.endsWith('${program}')) { ${code} }`;
  return { NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(source)}` };
}
