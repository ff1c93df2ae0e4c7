/**
 * The metrics that docs/monitoring.md lists below "Metrics": "- `name{label}`, `other` (gauge): meaning".
 * test/journey/metrics.test.ts compares them with a running service.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const DOCUMENT = join(import.meta.dirname, '../../docs/monitoring.md');

/** `isAlways`: present in every installation at any time. */
export type DocumentedMetric = {
  name: string;
  type: string;
  labels: readonly string[];
  isAlways: boolean;
};

export function documentedMetrics(): DocumentedMetric[] {
  const [, section = ''] = readFileSync(DOCUMENT, 'utf8').split(/^## Metrics$/m);
  const items = section.replaceAll(/\n {2,}/g, ' ').split('\n');
  return items.flatMap((item) => {
    const [, names = '', type = '', meaning = ''] =
      /^- (.*?) \((counter|gauge|histogram)\): (.*)$/.exec(item) ?? [];
    const isAlways = !/present (?:while|where|after)/.test(meaning);
    return [...names.matchAll(/`(\w+)(?:\{([\w,]+)\})?`/g)].map(([, name, labels = '']) => ({
      name: `letterhaus_${name}`,
      type,
      labels: labels === '' ? [] : labels.split(','),
      isAlways,
    }));
  });
}
