import type { InfiniteData, UseInfiniteQueryResult } from "@tanstack/react-query";
import { type ReactNode, useMemo } from "react";
import { ErrorState, Loading, NoMatch } from "./States";
import { ListHeader, VirtualList } from "./VirtualList";

interface Page<T> {
  items: T[];
}

/** The items of all loaded pages. */
export function useItems<T>(query: UseInfiniteQueryResult<InfiniteData<Page<T>>>): T[] {
  return useMemo(() => query.data?.pages.flatMap((page) => page.items) ?? [], [query.data]);
}

interface QueryListProps<T> {
  query: UseInfiniteQueryResult<InfiniteData<Page<T>>>;
  items: T[];
  label: string;
  rowHeight: number;
  columns: string;
  header: { name: string; right?: boolean }[];
  keyOf: (item: T) => string;
  /** Renders the content of a row. The function must be stable, because a row is rendered again only if it changes. */
  row: (item: T) => ReactNode;
  filtered: boolean;
  onClear: () => void;
  /** What to show if there is nothing yet. */
  empty: ReactNode;
}

/** A list that loads its pages while it is scrolled, with what to show while it loads, fails or is empty. */
export function QueryList<T>({ query, items, label, rowHeight, columns, header, keyOf, row, filtered, onClear, empty }: QueryListProps<T>) {
  if (query.isPending) return <Loading rows={8} />;
  if (query.isError && items.length === 0) return <ErrorState error={query.error} onRetry={() => void query.refetch()} />;
  if (items.length === 0) return filtered ? <NoMatch onClear={onClear} /> : empty;
  return (
    <VirtualList
      label={label}
      items={items}
      rowHeight={rowHeight}
      header={<ListHeader columns={columns} names={header} />}
      keyOf={keyOf}
      row={row}
      hasMore={query.hasNextPage}
      loadMore={() => void (query.isFetchingNextPage || query.fetchNextPage())}
    />
  );
}
