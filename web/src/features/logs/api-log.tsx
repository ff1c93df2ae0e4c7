/** The API log, newest first. The id in the address opens one entry. */
import { useQuery } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { ArrowLeftRight, Check, CircleX, TriangleAlert } from 'lucide-react';
import type { ReactNode } from 'react';
import type { ApiRequest, ApiRequestDetail } from '../../../../sdk/src/api.ts';
import { ApiError } from '../../api/client.ts';
import { useList } from '../../api/list.ts';
import { useApi } from '../../api/scope.ts';
import { Allowed, AllowedScreen } from '../../ui/allowed.tsx';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { Chip } from '../../ui/chip.tsx';
import { CopyButton } from '../../ui/copy.tsx';
import { Drawer } from '../../ui/drawer.tsx';
import { PageBody, PageHead } from '../../ui/page.tsx';
import { InlineSelect } from '../../ui/select.tsx';
import { Code, Empty, Problem, RowsSkeleton } from '../../ui/states.tsx';
import { ListTable } from '../../ui/table.tsx';
import { absoluteTime, inWords } from '../../lib/time.ts';
import { Time } from '../../ui/time.tsx';
import { timesOf } from './log-days.ts';
import { DayFilter, Filters, MemberFilter } from './log-filters.tsx';
import { refusalInWords } from './refusal-words.ts';

const STATUSES = [
  ['', 'Any status'],
  ['failed', 'Failed'],
  ['4xx', '4xx: request refused'],
  ['5xx', '5xx: service failed'],
  ['2xx', '2xx: changes made'],
] as const;
const METHODS = [
  ['', 'Any method'],
  ['GET', 'GET'],
  ['POST', 'POST'],
  ['PATCH', 'PATCH'],
  ['DELETE', 'DELETE'],
] as const;

export function ApiLogScreen(): ReactNode {
  return (
    <AllowedScreen to="listRequests" title="API log">
      <Entries />
    </AllowedScreen>
  );
}

const FILTERS = ['status', 'method', 'key_id', 'member_id', 'from', 'to'] as const;
type Search = Partial<Record<'id' | (typeof FILTERS)[number], string | undefined>>;

function Entries(): ReactNode {
  const { id, ...filter } = useSearch({ from: '/$project/$environment/api-log' });
  const navigate = useNavigate();
  const method = METHODS.find(([value]) => value === filter.method)?.[0] || undefined;
  const list = useList('listRequests', { query: { ...filter, method, ...timesOf(filter) } });
  const show = (changes: Search): void => {
    const all = Object.entries({ ...filter, ...changes }).filter(([, value]) => value);
    void navigate({ to: '.', params: true, search: Object.fromEntries(all) });
  };
  const isFiltered = FILTERS.some((name) => filter[name] !== undefined);
  const clear = (): void => void navigate({ to: '.', params: true, search: {} });
  return (
    <>
      <PageHead
        title="API log"
        about="Failed requests and all changes of the last 7 days. Sending and reading are listed only when they fail."
      />
      <PageBody>
        <Filters onClear={isFiltered ? clear : null}>
          <InlineSelect
            label="Status"
            options={STATUSES}
            value={filter.status ?? ''}
            onChange={(status) => show({ status: status || undefined })}
          />
          <InlineSelect
            label="Method"
            options={METHODS}
            value={filter.method ?? ''}
            onChange={(chosen) => show({ method: chosen || undefined })}
          />
          <Allowed to="listMembers">
            <MemberFilter
              actor={filter.member_id}
              onChoose={(member_id) => show({ member_id, key_id: '' })}
            />
          </Allowed>
          <DayFilter days={filter} onChoose={show} />
        </Filters>
        {filter.key_id !== undefined && (
          <p className="flex flex-wrap items-center gap-2 text-sm">
            Only requests with the key{' '}
            <code className="font-mono text-xs break-all">{filter.key_id}</code>
            <Button size="small" onClick={() => show({ key_id: undefined })}>
              Show all
            </Button>
          </p>
        )}
        <Card wide={<RequestTable {...{ list, show, isFiltered }} />} />
      </PageBody>
      {id !== undefined && (
        <Drawer title="Request" onClose={() => show({})}>
          <Entry id={id} />
        </Drawer>
      )}
    </>
  );
}

function RequestTable(props: {
  list: ReturnType<typeof useList<'listRequests'>>;
  show: (changes: Search) => void;
  isFiltered: boolean;
}): ReactNode {
  const { list, show, isFiltered } = props;
  return (
    <ListTable
      label="API log"
      list={list}
      keyOf={(one) => one.id}
      columns={[
        { title: 'Status', isState: true, cell: ({ status }) => <StatusOf status={status} /> },
        {
          title: 'Request',
          isRest: true,
          cell: (one) => <What request={one} onOpen={() => show({ id: one.id })} />,
        },
        {
          title: 'By',
          cell: ({ actor }) => <Actor actor={actor} onChoose={show} />,
        },
        {
          title: 'When',
          isNumber: true,
          isState: true,
          cell: ({ created_at: at }) => <Time at={at} />,
        },
      ]}
      empty={
        <Empty title={isFiltered ? 'No such requests' : 'No requests'} icon={ArrowLeftRight}>
          <p>
            {isFiltered
              ? 'Change the filters to see other requests.'
              : 'Failed requests and changes appear here.'}
          </p>
        </Empty>
      }
    />
  );
}

/** The reason of a refusal stands beside the request, and below it on a phone. */
function What(props: { request: ApiRequest; onOpen: () => void }): ReactNode {
  const { method, path, error } = props.request;
  return (
    <span className="flex min-w-0 items-baseline gap-x-4 gap-y-0.5 max-md:flex-wrap">
      <button
        type="button"
        title={`${method} ${path}`}
        className={`cell-link text-left font-mono text-xs font-medium max-md:break-all md:shrink-0 md:truncate ${error ? 'md:max-w-3/5' : 'md:max-w-full'}`}
        onClick={props.onOpen}
      >
        {method} {path}
      </button>
      {error && (
        <span
          className="min-w-0 font-normal break-words text-muted max-md:basis-full max-md:text-xs md:truncate"
          title={error.message}
        >
          {refusalInWords(error.message)}
        </span>
      )}
    </span>
  );
}

/** A key or a person is a link to its requests. */
function Actor(props: {
  actor: ApiRequest['actor'];
  onChoose: (filter: Search) => void;
}): ReactNode {
  const { type, id, name } = props.actor;
  return (
    <button
      type="button"
      className="cell-link text-left break-words md:block md:w-40 md:truncate"
      title={name ?? id}
      onClick={() =>
        props.onChoose(
          type === 'member' ? { member_id: id, key_id: '' } : { key_id: id, member_id: '' },
        )
      }
    >
      {name ?? id}
    </button>
  );
}

function StatusOf({ status }: { status: number }): ReactNode {
  if (status >= 500) {
    return (
      <Chip tone="bad" icon={CircleX}>
        {status}
      </Chip>
    );
  }
  const isRefused = status >= 400;
  return (
    <Chip tone={isRefused ? 'wait' : 'good'} icon={isRefused ? TriangleAlert : Check}>
      {status}
    </Chip>
  );
}

/** An entry is stored up to a second after its response. */
const ASKED_AGAIN = 3;
const ASKED_AGAIN_MS = 700;

function Entry({ id }: { id: string }): ReactNode {
  const api = useApi();
  const entry = useQuery({
    ...api.query('getRequest', { path: { id } }),
    retry: (count, error) =>
      count < ASKED_AGAIN && error instanceof ApiError && error.status === 404,
    retryDelay: ASKED_AGAIN_MS,
  });
  if (entry.isPending) return <RowsSkeleton rows={4} />;
  if (entry.isError) return <NoEntry id={id} error={entry.error} />;
  return <Loaded request={entry.data} />;
}

function NoEntry({ id, error }: { id: string; error: unknown }): ReactNode {
  if (!(error instanceof ApiError) || error.status !== 404) return <Problem error={error} />;
  return (
    <div className="space-y-2 p-5">
      <p>This request is not in the log of this project and environment.</p>
      <p className="text-sm text-muted">
        The API log keeps failed requests and changes for 7 days, at most 100 per minute. The log of
        the service has every request under its ID:{' '}
        <code className="font-mono text-xs break-all">{id}</code>
      </p>
    </div>
  );
}

function Loaded({ request }: { request: ApiRequestDetail }): ReactNode {
  const { actor, error, body } = request;
  const facts: [string, ReactNode][] = [
    ['Status', <StatusOf status={request.status} />],
    ['By', [actor.name ?? actor.id, actor.hint].filter(Boolean).join(', ')],
    ['When', `${absoluteTime(request.created_at)}, in ${inWords(request.duration_ms / 1000)}`],
    ['From', [request.network, request.user_agent].filter(Boolean).join(', ')],
    ['ID', <IdOf id={request.id} />],
  ];
  return (
    <div className="space-y-4 p-5">
      <p className="font-mono text-sm break-all">
        {request.method} {request.path}
      </p>
      {error && (
        <p className="break-words text-bad">
          {refusalInWords(error.message)} <span className="text-muted">({error.code})</span>
        </p>
      )}
      <dl className="space-y-1 text-sm">
        {facts.map(([name, value]) => (
          <div key={name} className="flex items-baseline gap-3">
            <dt className="w-16 shrink-0 text-muted">{name}</dt>
            <dd className="min-w-0 break-words">{value}</dd>
          </div>
        ))}
      </dl>
      {body != null && (
        <>
          <p className="text-sm text-muted">
            The body without content and secrets. Other texts are shown by their size.
          </p>
          <Code what="body" text={JSON.stringify(body, null, 2)} />
        </>
      )}
    </div>
  );
}

function IdOf({ id }: { id: string }): ReactNode {
  return (
    <span className="flex items-center gap-1">
      <code className="font-mono text-xs break-all">{id}</code>
      <CopyButton text={id} what="request id" />
    </span>
  );
}
