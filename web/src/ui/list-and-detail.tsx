import type { ReactNode } from 'react';

/**
 * A list with the open item beside it; on narrow screens the item replaces the list.
 * @param props.detail null: no item is open
 */
export function ListAndDetail(props: { children: ReactNode; detail: ReactNode }): ReactNode {
  const { children, detail } = props;
  const beside =
    'hidden min-[1100px]:flex min-[1100px]:w-2/5 min-[1100px]:grow-0 min-[1100px]:border-r min-[1100px]:border-line min-[1100px]:pt-3';
  return (
    <div className={`flex min-h-0 grow print:block ${detail === null ? '' : '[--page-x:1rem]'}`}>
      <div
        className={`min-h-0 min-w-0 grow flex-col print:hidden ${detail === null ? 'flex' : beside}`}
      >
        {children}
      </div>
      {detail !== null && (
        <div className="min-h-0 min-w-0 grow overflow-auto print:overflow-visible min-[1100px]:w-3/5">
          {detail}
        </div>
      )}
    </div>
  );
}
