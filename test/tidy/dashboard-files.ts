/** Rules for deploy/grafana: dashboards that Grafana imports as they are. */
import type { Rule } from './source.ts';

/** The last version of the classic form, which every Grafana imports. Later forms need Grafana 13. */
const SCHEMA_VERSION = 42;
const COLUMNS = 24;
const DATA_SOURCE = '${datasource}';

type Grid = { x: number; y: number; w: number; h: number };
type Target = { refId?: string; expr?: string; datasource?: { uid?: string } };
type Panel = {
  id?: number;
  type?: string;
  title?: string;
  description?: string;
  gridPos: Grid;
  targets?: Target[];
};
type Dashboard = {
  uid?: string;
  title?: string;
  schemaVersion?: number;
  templating?: { list?: { name?: string; type?: string }[] };
  panels?: Panel[];
};

export const parseDashboard = (text: string): Dashboard => JSON.parse(text) as Dashboard;

export const dashboardsAreComplete: Rule = (files) =>
  files.flatMap(({ path, text }) => {
    const dashboard = parseDashboard(text);
    const { panels = [], templating } = dashboard;
    const variables = (templating?.list ?? []).map(({ name }) => name).join();
    const rules: [boolean, string][] = [
      [dashboard.schemaVersion !== SCHEMA_VERSION, `has not the schema ${SCHEMA_VERSION}`],
      [!/^letterhaus-[a-z]+$/.test(dashboard.uid ?? ''), 'has no uid like letterhaus-overview'],
      [
        dashboard.title?.startsWith('Letterhaus: ') !== true,
        'has no title that begins with Letterhaus',
      ],
      [variables !== 'datasource,job', 'has not the variables datasource and job'],
      [new Set(panels.map(({ id }) => id)).size < panels.length, 'has two panels with one id'],
      [panels.some((panel, index) => overlaps(panel, panels.slice(0, index))), 'has overlaps'],
    ];
    return [
      ...rules.filter(([isBroken]) => isBroken).map(([, rule]) => `${path} ${rule}.`),
      ...panels.flatMap((panel) => problemsOf(panel).map((one) => `${path} ${one}`)),
    ];
  });

function overlaps({ gridPos: a }: Panel, others: readonly Panel[]): boolean {
  return others.some(
    ({ gridPos: b }) => a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h,
  );
}

function problemsOf({
  title = '',
  type,
  description = '',
  gridPos,
  targets = [],
}: Panel): string[] {
  if (type === 'row') return title === '' ? ['has a row without a title.'] : [];
  const rules: [boolean, string][] = [
    [title === '', 'has no title'],
    [description === '', 'has no description'],
    [gridPos.x + gridPos.w > COLUMNS, 'is wider than the page'],
    [targets.length === 0, 'asks nothing'],
    [new Set(targets.map(({ refId }) => refId)).size < targets.length, 'has two queries of one id'],
    [targets.some(({ datasource }) => datasource?.uid !== DATA_SOURCE), 'has its own data source'],
    [targets.some(({ expr = '' }) => !/job="\$job"/.test(expr)), 'asks without the job'],
  ];
  return rules
    .filter(([isBroken]) => isBroken)
    .map(([, rule]) => `has a panel "${title}" that ${rule}.`);
}
