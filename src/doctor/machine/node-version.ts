/** The end of life of the Node that runs the service: after it, Node gets no security fixes. */
import { DAY_MS } from '../../lib/units.ts';
import { type Finding, green, red, unknown, yellow } from '../finding.ts';
import type { Check } from '../run-checks.ts';

/** The last day of each major version, as Node's release schedule has it. */
const ENDS: Readonly<Record<number, string>> = {
  24: '2028-04-30',
  25: '2026-06-01',
  26: '2029-04-30',
};
const SOON_MS = 90 * DAY_MS;

export const NODE_VERSION: Check = {
  id: 'node_version',
  title: 'Version of Node',
  run: async ({ world }) => [judgeNode(process.versions.node, world.now())],
};

export function judgeNode(version: string, nowMs: number): Finding {
  const major = Number.parseInt(version);
  const end = ENDS[major];
  if (end === undefined) return unknown(`This version does not know how long Node ${major} lasts.`);
  const leftMs = Date.parse(end) + DAY_MS - nowMs;
  if (leftMs > SOON_MS) return green(`Node ${version} gets security fixes until ${end}.`);
  const report = leftMs > 0 ? yellow : red;
  const verb = leftMs > 0 ? 'ends' : 'ended';
  return report(`The support of Node ${major} ${verb} on ${end}.`, {
    meaning: 'Node gets no security fixes afterwards, and the service reads data of strangers.',
    remedy: 'Upgrade Letterhaus, which brings a newer Node (docs/upgrading.md).',
    command: 'letterhaus upgrade-check',
  });
}
