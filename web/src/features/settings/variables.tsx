/** The variables of the service, in groups: what is set on this node, and what has its default. */
import { useQuery } from '@tanstack/react-query';
import { Search } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import type { Variable } from '../../../../sdk/src/api.ts';
import { useApi } from '../../api/scope.ts';
import { Card } from '../../ui/card.tsx';
import { WIDE_FACT } from '../../ui/facts.tsx';
import { INPUT } from '../../ui/field.tsx';
import { HandbookLink } from '../../ui/handbook-link.tsx';
import { Problem, RowsSkeleton } from '../../ui/states.tsx';
import { groupsOf } from './variable-groups.ts';

export function Variables(): ReactNode {
  const api = useApi();
  const variables = useQuery(api.query('listVariables'));
  const [find, setFind] = useState('');
  const [isOnlySet, setOnlySet] = useState(true);
  const all = variables.data?.data ?? [];
  // A search finds every variable: somebody looks for the name of one to set.
  const shown = isOnlySet && find === '' ? all.filter(({ is_set: isSet }) => isSet) : all;
  const groups = groupsOf(shown, find);
  return (
    <Card
      title="Variables"
      about="Set in the environment or in letterhaus.env, in effect from the next start."
      wide={
        <>
          <div className="flex flex-wrap items-center gap-3 px-(--page-x) py-2">
            <div className="relative w-full max-w-80 max-sm:max-w-none">
              <Search
                size={14}
                aria-hidden
                className="absolute top-1/2 left-2.5 -translate-y-1/2 text-muted"
              />
              <input
                type="search"
                aria-label="Search variables"
                placeholder="Search variables…"
                value={find}
                onChange={({ target }) => setFind(target.value)}
                className={`${INPUT} pl-8`}
              />
            </div>
            <label className="flex items-center gap-2 text-sm">
              <input
                type="checkbox"
                className="size-4"
                disabled={find !== ''}
                checked={isOnlySet}
                onChange={({ target }) => setOnlySet(target.checked)}
              />
              Only those that are set
            </label>
          </div>
          {variables.isPending && <RowsSkeleton />}
          {variables.isError && (
            <Problem error={variables.error} retry={() => void variables.refetch()} />
          )}
          {variables.isSuccess && groups.length === 0 && (
            <p className="border-t border-line px-(--page-x) py-4 text-sm text-muted">
              {find === '' ? 'No variable is set.' : 'No variable has such a name.'}
            </p>
          )}
          {groups.map((group) => (
            <VariableGroup key={group.title} group={group} />
          ))}
        </>
      }
    />
  );
}

function VariableGroup(props: { group: ReturnType<typeof groupsOf>[number] }): ReactNode {
  const { title, section, variables } = props.group;
  return (
    <section aria-label={title} className="border-line not-first:border-t">
      <h3 className="px-(--page-x) pt-3 text-sm font-semibold">
        {section === '' ? (
          title
        ) : (
          <HandbookLink page={`configuration#${section}`} isInText>
            {title}
          </HandbookLink>
        )}
      </h3>
      <dl className="px-(--page-x) pt-1 pb-3 text-sm">
        {variables.map((one) => (
          <div key={one.name} className={`grid py-1 ${WIDE_FACT}`}>
            <dt className="font-mono text-xs leading-5 break-all">{one.name}</dt>
            <dd className="min-w-0">
              <Value variable={one} />
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

function Value({ variable }: { variable: Variable }): ReactNode {
  const { is_set: isSet, is_hidden: isHidden, value } = variable;
  if (!isSet) return <span className="text-muted">Default</span>;
  if (isHidden) return <span>Set, not shown</span>;
  return <span className="font-mono text-xs leading-5 break-all">{value}</span>;
}
