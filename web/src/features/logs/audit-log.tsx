/**
 * The audit log, newest first: who changed what, by name. Filters narrow it, and a download saves the filtered entries.
 */
import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { ScrollText } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import type { AuditEvent, Project } from '../../../../sdk/src/api.ts';
import { useList } from '../../api/list.ts';
import { useApi } from '../../api/scope.ts';
import { AllowedScreen } from '../../ui/allowed.tsx';
import { Card } from '../../ui/card.tsx';
import { type ExportFormat, ExportMenu } from '../../ui/export-menu.tsx';
import { PageBody, PageHead } from '../../ui/page.tsx';
import { InlineSelect } from '../../ui/select.tsx';
import { Empty, sentenceOf } from '../../ui/states.tsx';
import { Dash, ListTable } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { AUDIT_OBJECTS } from '../../../../src/core/audit/audit-objects.ts';
import { type AuditQuery, saveAuditLog } from './audit-export.ts';
import { timesOf } from './log-days.ts';
import { DayFilter, Filters, MemberFilter } from './log-filters.tsx';
import { actionsOf, actionWords, actorWords, asObject, OBJECT_WORDS } from './audit-words.ts';

const ROUTE = '/$project/$environment/audit-log';

export function AuditLogScreen(): ReactNode {
  return (
    <AllowedScreen to="listAuditEvents" title="Audit log">
      <Entries />
    </AllowedScreen>
  );
}

type Search = Partial<Record<'object' | 'action' | 'actor' | 'target' | 'from' | 'to', string>>;

function queryOf(search: Search): AuditQuery {
  const { action, actor, target } = search;
  return {
    action,
    object: action === undefined ? asObject(search.object) : undefined,
    actor_id: actor,
    target_id: target,
    ...timesOf(search),
  };
}

function Entries(): ReactNode {
  const search = useSearch({ from: ROUTE });
  const query = queryOf(search);
  const list = useList('listAuditEvents', { query });
  const projects = useQuery(useApi().query('listProjects')).data?.data ?? [];
  const isFiltered = Object.values(search).some((value) => value !== undefined);
  return (
    <>
      <PageHead
        title="Audit log"
        about="Changes by members, API keys and the command line, in all projects."
        secondary={<Save query={query} />}
      />
      <PageBody>
        <AuditFilters search={search} isFiltered={isFiltered} />
        <Card
          wide={
            <ListTable
              label="Audit log"
              list={list}
              keyOf={({ id }) => id}
              columns={[
                { title: 'Who', cell: (event) => <Who event={event} /> },
                {
                  title: 'What',
                  isPlain: true,
                  isLine: true,
                  cell: (event) => <What event={event} />,
                },
                {
                  title: 'Project',
                  isPlain: true,
                  cell: (event) => <Place event={event} projects={projects} />,
                },
                {
                  title: 'From',
                  isWide: true,
                  cell: ({ network }) =>
                    network === null ? (
                      <Dash />
                    ) : (
                      <span className="font-mono text-xs">{network}</span>
                    ),
                },
                {
                  title: 'When',
                  isNumber: true,
                  isState: true,
                  cell: ({ created_at: at }) => <Time at={at} />,
                },
              ]}
              empty={
                <Empty title={isFiltered ? 'No such changes' : 'No changes yet'} icon={ScrollText}>
                  <p>
                    {isFiltered
                      ? 'Change the filters to see other changes.'
                      : 'Changes by members, keys and commands appear here for 400 days.'}
                  </p>
                </Empty>
              }
            />
          }
        />
      </PageBody>
    </>
  );
}

/** The address stands beside the name where there is room. */
function Who({ event }: { event: AuditEvent }): ReactNode {
  const { name, detail } = actorWords(event);
  return (
    <span className="flex flex-wrap items-baseline gap-x-2" title={detail ?? undefined}>
      <span className="[overflow-wrap:anywhere]">{name}</span>
      {detail !== null && (
        <span
          className={`text-xs [overflow-wrap:anywhere] text-muted ${event.actor.type === 'api_key' ? '' : 'max-md:hidden'}`}
        >
          {detail}
        </span>
      )}
    </span>
  );
}

function What({ event }: { event: AuditEvent }): ReactNode {
  return (
    <div className="min-w-0 [overflow-wrap:anywhere]">
      <span>{actionWords(event.action)}</span> <Target event={event} />
    </div>
  );
}

/** "Shop, test"; nothing for a change of the organization. */
function Place(props: { event: AuditEvent; projects: readonly Project[] }): ReactNode {
  const { project_id: projectId, environment } = props.event;
  const project = props.projects.find(({ id }) => id === projectId)?.name;
  const place = [project, environment].filter((one) => one != null).join(', ');
  if (place === '') return <Dash />;
  return (
    <span className="text-muted md:block md:w-max md:max-w-40 md:truncate" title={place}>
      {place}
    </span>
  );
}

/** The name of the object, as a link while it can be opened. */
function Target({ event }: { event: AuditEvent }): ReactNode {
  const { object_type: type, target_id: id, target_name: name, action } = event;
  const { project_id: project, environment } = event;
  const words = name ?? (type === 'suppression' ? id : null);
  const isGone = /^(delete|revoke|remove)/.test(action);
  if (id !== null && project !== null && environment !== null && !isGone) {
    const params = { project, environment, id };
    const look = { params, className: 'cell-link font-medium' };
    if (type === 'domain')
      return (
        <Link to="/$project/$environment/domains/$id" {...look}>
          {words ?? 'it'}
        </Link>
      );
    if (type === 'webhook')
      return (
        <Link to="/$project/$environment/webhooks/$id" {...look}>
          {words ?? 'it'}
        </Link>
      );
    if (type === 'template')
      return (
        <Link to="/$project/$environment/templates/$id" {...look}>
          {words ?? 'it'}
        </Link>
      );
    if (action === 'sendEmail')
      return (
        <Link to="/$project/$environment/emails/$id" {...look}>
          Open
        </Link>
      );
  }
  // Who accepted an invitation is the actor; the id of the session says nothing.
  if ((type === 'account' || action === 'acceptInvitation') && words === null) return null;
  if (words !== null) return <bdi className="font-medium [overflow-wrap:anywhere]">{words}</bdi>;
  return id === null ? null : <span className="font-mono text-xs break-all text-muted">{id}</span>;
}

function AuditFilters(props: { search: Search; isFiltered: boolean }): ReactNode {
  const { search, isFiltered } = props;
  const navigate = useNavigate();
  const show = (changes: Search): void => {
    const all = Object.entries({ ...search, ...changes }).filter(([, value]) => value);
    void navigate({ to: '.', params: true, search: Object.fromEntries(all) });
  };
  const object = asObject(search.object);
  const clear = (): void => void navigate({ to: '.', params: true, search: {} });
  return (
    <Filters onClear={isFiltered ? clear : null}>
      <InlineSelect
        label="Object"
        value={object ?? ''}
        onChange={(chosen) => show({ object: chosen, action: '' })}
        options={[
          ['', 'All objects'],
          ...AUDIT_OBJECTS.map((one) => [one, OBJECT_WORDS[one]] as const),
        ]}
      />
      {object !== undefined && (
        <InlineSelect
          label="Action"
          value={search.action ?? ''}
          onChange={(action) => show({ action })}
          options={[
            ['', 'All actions'],
            ...actionsOf(object).map((one) => [one, actionWords(one)] as const),
          ]}
        />
      )}
      <MemberFilter actor={search.actor} onChoose={(actor) => show({ actor })} />
      <DayFilter days={search} onChoose={show} />
      {search.target !== undefined && <TargetFilter target={search.target} />}
    </Filters>
  );
}

function TargetFilter({ target }: { target: string }): ReactNode {
  const query = { target_id: target, limit: 1 };
  const [entry] = useQuery(useApi().query('listAuditEvents', { query })).data?.data ?? [];
  return (
    <span className="text-sm text-muted">
      Only{' '}
      {entry?.target_name == null ? (
        <span className="font-mono text-xs break-all">{target}</span>
      ) : (
        <bdi className="font-medium [overflow-wrap:anywhere] text-text">{entry.target_name}</bdi>
      )}
    </span>
  );
}

function savedWords(rows: number, isCut: boolean): string {
  if (rows === 1) return '1 entry was saved.';
  return isCut ? `The newest ${rows} entries were saved.` : `${rows} entries were saved.`;
}

/** Saves what is shown, up to a number of entries. */
function Save({ query }: { query: AuditQuery }): ReactNode {
  const api = useApi();
  const [state, setState] = useState<{ isRunning: boolean; text: string }>({
    isRunning: false,
    text: '',
  });
  const save = async (format: ExportFormat): Promise<void> => {
    setState({ isRunning: true, text: '' });
    try {
      const { rows, isCut } = await saveAuditLog(api, query, format);
      setState({ isRunning: false, text: savedWords(rows, isCut) });
    } catch (error) {
      setState({ isRunning: false, text: sentenceOf(error) });
    }
  };
  return (
    <>
      <span role="status" className="text-sm text-muted empty:hidden">
        {state.text}
      </span>
      <ExportMenu isDisabled={state.isRunning} onChoose={(format) => void save(format)} />
    </>
  );
}
